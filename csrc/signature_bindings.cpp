// The signature operation as Python sees it: a compiled word tree with forward and backward.
//
// Buffers are passed as addresses of contiguous CPU memory; the caller has checked shapes and types.
#include "signature_loops.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>

#include "address.hpp"
#include "blocks.hpp"
#include "isa.hpp"

namespace nb = nanobind;

namespace siggpde {

namespace {

template <class T>
const SignatureLoops<T>& loops();

template <>
const SignatureLoops<float>& loops<float>() {
    SIGGPDE_PICK(signature_float)
}

template <>
const SignatureLoops<double>& loops<double>() {
    SIGGPDE_PICK(signature_double)
}

class SignatureTree {
public:
    explicit SignatureTree(WordTree tree) : tree_(std::move(tree)) {
        for (const Tile& tile : tree_.tiles)
            tiles_.push_back({tile.ops.data(), int(tile.ops.size()), tile.inner.data(), int(tile.inner.size()),
                              tile.start.data(), tile.inner_start.data(), tile.filled.data(), tile.position.data(),
                              int(tile.position.size()), int(tile.start.size()), int(tile.inner_start.size())});
        view_ = {tiles_.data(),      int(tiles_.size()), tree_.channels,  tree_.depth,
                 tree_.root_column, tree_.max_size,     tree_.max_inner, tree_.columns};
    }
    SignatureTree(const SignatureTree&) = delete;
    SignatureTree& operator=(const SignatureTree&) = delete;

    template <class T>
    int forward(const Batch<T>& batch, const T* start, T* out, int threads) const {
        const auto& run = loops<T>();
        const std::size_t bytes = std::size_t(run.forward_memory(view_, batch)) * run.vector_bytes;
        std::atomic<int> status{ok};
        threads = useful_threads(threads, operations(batch));
        for_blocks(batch.n, run.width, threads, bytes, [&](long block, void* memory) {
            const int mine = run.forward(view_, batch, block, start, out, memory);
            int current = status.load();
            while (mine != ok && (current == ok || mine < current) && !status.compare_exchange_weak(current, mine)) {}
        });
        return status;
    }

    template <class T>
    void backward(const Batch<T>& batch, const T* start, const T* grad_out, T* grad_x, T* grad_start,
                  int threads) const {
        const auto& run = loops<T>();
        const std::size_t bytes = std::size_t(run.backward_memory(view_, batch)) * run.vector_bytes;
        threads = useful_threads(threads, 4 * operations(batch));
        for_blocks(batch.n, run.width, threads, bytes, [&](long block, void* memory) {
            run.backward(view_, batch, block, start, grad_out, grad_x, grad_start, memory);
        });
    }

    const WordTree& tree() const { return tree_; }

private:
    template <class T>
    double operations(const Batch<T>& batch) const {  // vector operations, about one a cycle
        return tree_.work * double(batch.length) * double(batch.n) / loops<T>().width;
    }

    WordTree tree_;
    std::vector<TileView> tiles_;
    TreeView view_;
};

template <class T>
int forward(const SignatureTree& tree, std::uintptr_t x, std::uintptr_t lengths, long n, long length, bool increments,
            std::uintptr_t start, std::uintptr_t out, int threads) {
    nb::gil_scoped_release release;
    const Batch<T> batch{at<const T>(x), at<const long long>(lengths), n, length, increments};
    return tree.forward<T>(batch, at<const T>(start), at<T>(out), threads);
}

template <class T>
void backward(const SignatureTree& tree, std::uintptr_t x, std::uintptr_t lengths, long n, long length,
              bool increments, std::uintptr_t start, std::uintptr_t grad_out, std::uintptr_t grad_x,
              std::uintptr_t grad_start, int threads) {
    nb::gil_scoped_release release;
    const Batch<T> batch{at<const T>(x), at<const long long>(lengths), n, length, increments};
    tree.backward<T>(batch, at<const T>(start), at<const T>(grad_out), at<T>(grad_x), at<T>(grad_start), threads);
}

}  // namespace

void bind_signature(nb::module_& module) {
    using Ints = std::vector<int>;
    nb::set_leak_warnings(false);  // word trees stay in a cache of the Python side until the interpreter ends
    nb::class_<SignatureTree>(module, "SignatureTree", "A set of words compiled for the signature of a batch of paths.")
        .def("__init__",
             [](SignatureTree* self, int channels, int depth) { new (self) SignatureTree(WordTree(channels, depth)); })
        .def("__init__",
             [](SignatureTree* self, int channels, const Ints& parent, const Ints& letter, const Ints& column) {
                 new (self) SignatureTree(WordTree(channels, parent, letter, column));
             })
        .def_prop_ro("columns", [](const SignatureTree& self) { return self.tree().columns; })
        .def_prop_ro("tiles", [](const SignatureTree& self) { return self.tree().tiles.size(); })
        .def("forward_float", &forward<float>)
        .def("forward_double", &forward<double>)
        .def("backward_float", &backward<float>)
        .def("backward_double", &backward<double>);
}

}  // namespace siggpde
