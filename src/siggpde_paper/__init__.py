"""The experiments of the SigGPDE paper, the models it compares with (GPSig) and other libraries' methods."""
