"""Two neighbours of the comparison page, as a user would call them, on one thread; not tuned.

    pip install tslearn==0.10.0
    python benchmarks/neighbours.py [dtw] [svgp]

`dtw`: one nearest neighbour by dynamic time warping (tslearn) on archive splits. `svgp`: a sparse variational Gaussian
process of GPyTorch with a softmax and a Gaussian kernel of the 16 numbers of a PenDigits series, 300 inducing points
that are learned, 20 passes of Adam. Accuracy, NLPP where there are probabilities, and CPU seconds.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch

from siggpde.datasets import load_dataset, load_pendigits

ARCHIVE = ("BasicMotions", "Epilepsy", "UWaveGestureLibrary")
INDUCING, PASSES, BATCH, RATE, SAMPLES = 300, 20, 1024, 0.02, 256


def dtw() -> None:
    from tslearn.neighbors import KNeighborsTimeSeriesClassifier  # noqa: PLC0415 - a peer of this benchmark alone

    for name in ARCHIVE:
        data = load_dataset(name)
        train, test = (np.swapaxes(X, 1, 2).astype(float) for X in (data.X_train, data.X_test))
        nearest = KNeighborsTimeSeriesClassifier(n_neighbors=1, metric="dtw", n_jobs=1)
        nearest.fit(train[:2], data.y_train[:2]).predict(test[:1])  # what is compiled is compiled
        nearest.fit(train, data.y_train)
        start = time.process_time()
        right = np.mean(nearest.predict(test) == data.y_test)
        print(f"1-NN DTW, {name}: {100 * right:.1f} %, predicted in {time.process_time() - start:.1f} s", flush=True)


def svgp() -> None:
    import gpytorch  # noqa: PLC0415 - a peer of this benchmark alone

    torch.manual_seed(0)
    data = load_pendigits()
    train, test = (torch.from_numpy(X.reshape(len(X), -1)).float() for X in (data.X_train, data.X_test))
    mean, spread = train.mean(0), train.std(0)
    train, test = (train - mean) / spread, (test - mean) / spread
    y_train, y_test = (torch.tensor([int(label) for label in y]) for y in (data.y_train, data.y_test))
    outputs = torch.Size([10])

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, points: torch.Tensor) -> None:
            q = gpytorch.variational.CholeskyVariationalDistribution(len(points), batch_shape=outputs)
            one = gpytorch.variational.VariationalStrategy(self, points, q, learn_inducing_locations=True)
            super().__init__(gpytorch.variational.IndependentMultitaskVariationalStrategy(one, num_tasks=10))
            self.mean_module = gpytorch.means.ConstantMean(batch_shape=outputs)
            static = gpytorch.kernels.RBFKernel(ard_num_dims=points.shape[1], batch_shape=outputs)
            static.lengthscale = 4.0
            self.covar_module = gpytorch.kernels.ScaleKernel(static, batch_shape=outputs)

        def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    start = time.process_time()
    model = Model(train[torch.randperm(len(train))[:INDUCING]].clone())
    likelihood = gpytorch.likelihoods.SoftmaxLikelihood(num_classes=10, mixing_weights=False)
    elbo = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(train))
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=RATE)
    for _ in range(PASSES):
        for rows in torch.randperm(len(train)).split(BATCH):
            adam.zero_grad()
            (-elbo(model(train[rows]), y_train[rows])).backward()
            adam.step()
    seconds = time.process_time() - start
    model.eval()
    likelihood.eval()
    with torch.no_grad(), gpytorch.settings.num_likelihood_samples(SAMPLES):
        p = torch.cat([likelihood(model(some)).probs.mean(0) for some in test.split(500)])
    right = float((p.argmax(1) == y_test).double().mean())
    nlpp = -float(p[torch.arange(len(y_test)), y_test].log().mean())
    print(f"GPyTorch SVGP, PenDigits: {100 * right:.2f} %, NLPP {nlpp:.4f}, fitted in {seconds:.0f} s", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    parts = {"dtw": dtw, "svgp": svgp}
    wanted = sys.argv[1:] or list(parts)
    if unknown := sorted(set(wanted) - set(parts)):
        sys.exit(f"there is no {', '.join(unknown)}; there are {', '.join(parts)}")
    for name in wanted:
        parts[name]()


if __name__ == "__main__":
    main()
