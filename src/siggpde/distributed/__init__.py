"""Several processes that train one model: their messages, and which rows of the data each of them holds."""
