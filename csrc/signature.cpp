#include "signature.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>

#include "arguments.hpp"
#include "isa.hpp"
#include "parallel.hpp"
#include "without_gil.hpp"

namespace nb = nanobind;

namespace siggpde {

namespace {

// A tile holds at most about this many words: with AVX-512 that is 24 KiB, half of a usual first-level cache.
constexpr int tile_words = 384;

// The tree while it is being cut. Words are in level order, so the children of a word are consecutive.
struct Builder {
    int channels;
    const std::vector<int>& parent;
    const std::vector<int>& letter;
    const std::vector<int>& column;
    std::vector<int> child, children, size, height, full, depth;
    std::vector<bool> claimed;  // a word's column is written by the first tile that holds the word
    std::vector<Tile> tiles;

    Builder(int channels_, const std::vector<int>& parent_, const std::vector<int>& letter_,
            const std::vector<int>& column_)
        : channels(channels_), parent(parent_), letter(letter_), column(column_) {
        const int n = int(parent.size());
        child.assign(n, 0), children.assign(n, 0), size.assign(n, 1), height.assign(n, 0), full.assign(n, 0);
        depth.assign(n, 0), claimed.assign(n, false);
        for (int i = 1; i < n; ++i) {
            const int p = parent[i];
            if (p < 0 || p >= i || letter[i] < 0 || letter[i] >= channels ||
                (children[p] && child[p] + children[p] != i))
                throw std::invalid_argument("words must be prefix-closed, sorted, with letters in range");
            if (!children[p]++) child[p] = i;
            depth[i] = depth[p] + 1;
        }
        for (int i = n - 1; i > 0; --i) {
            size[parent[i]] += size[i];
            height[parent[i]] = std::max(height[parent[i]], height[i] + 1);
        }
        for (int i = n - 1; i >= 0; --i) {  // full[i]: levels of a complete subtree below i, or -1
            if (!children[i]) continue;
            full[i] = children[i] == channels ? full[child[i]] : -1;
            for (int c = child[i]; c < child[i] + children[i]; ++c)
                if (full[c] != full[child[i]]) full[i] = -1;
            if (full[i] >= 0) ++full[i];
        }
    }

    void store(Tile& tile, int i) {
        if (!claimed[i] && column[i] >= 0) tile.position.push_back(int(tile.start.size()));
        tile.start.push_back(column[i]);
        if (children[i]) tile.inner_start.push_back(column[i]);
        claimed[i] = true;
    }

    void store_below(Tile& tile, int i) {
        for (int c = child[i]; c < child[i] + children[i]; ++c) store(tile, c), store_below(tile, c);
    }

    // The children from `first` to `last` of word i, with everything below them.
    void emit_children(Tile& tile, int i, int first, int last) {
        if (last - first == channels && full[i] > 0 && full[i] <= max_full_levels) {
            tile.ops.push_back({TreeOp::full, depth[i], 0, full[i], int(tile.ops.size()) + 1});
            store_below(tile, i);
            return;
        }
        int next_letter = -1;
        for (int c = first; c < last; ++c) {
            if (children[c]) continue;
            if (letter[c] != next_letter)
                tile.ops.push_back({TreeOp::leaves, depth[i], letter[c], 0, int(tile.ops.size()) + 1});
            ++tile.ops.back().levels;
            next_letter = letter[c] + 1;
            store(tile, c);
        }
        for (int c = first; c < last; ++c)
            if (children[c]) emit_node(tile, c);
    }

    void emit_node(Tile& tile, int i) {
        const int at = open(tile, i);
        emit_children(tile, i, child[i], child[i] + children[i]);
        tile.ops[at].end = int(tile.ops.size());
    }

    int open(Tile& tile, int i) {
        tile.ops.push_back({TreeOp::node, depth[i], letter[i], height[i] + 1, 0});
        store(tile, i);
        return int(tile.ops.size()) - 1;
    }

    // Cuts what is below word i into tiles. `path` holds the ancestors that each of them repeats, i included.
    void cut(int i, std::vector<int>& path) {
        int first = child[i];
        const int last = child[i] + children[i];
        while (first < last) {
            int total = size[first], next = first + 1;
            if (total > tile_words && children[first]) {
                path.push_back(first);
                cut(first, path);
                path.pop_back();
                first = next;
                continue;
            }
            while (next < last && total + size[next] <= tile_words) total += size[next++];
            Tile& tile = tiles.emplace_back();
            std::vector<int> opened;
            for (int ancestor : path) opened.push_back(open(tile, ancestor));
            emit_children(tile, i, first, next);
            for (int at : opened) tile.ops[at].end = int(tile.ops.size());
            first = next;
        }
    }
};

// Drops the words without descendants from ops[begin, end) and returns the height of what is left.
int prune(const std::vector<TreeOp>& ops, int begin, int end, std::vector<TreeOp>& out) {
    int height = 0;
    for (int i = begin; i < end; i = ops[i].end) {
        TreeOp op = ops[i];
        if (op.kind == TreeOp::leaves) continue;
        if (op.kind == TreeOp::full && --op.levels == 0) continue;
        const int at = int(out.size());
        out.push_back(op);
        if (op.kind == TreeOp::node) out[at].levels = 1 + prune(ops, i + 1, op.end, out);
        out[at].end = int(out.size());
        height = std::max(height, out[at].levels);
    }
    return height;
}

double multiply_adds(const std::vector<TreeOp>& ops, int channels) {
    double total = 0;
    for (const TreeOp& op : ops) {
        if (op.kind != TreeOp::full) total += op.levels;
        double words = 1;
        for (int level = op.levels; op.kind == TreeOp::full && level > 0; --level) total += (words *= channels) * level;
    }
    return total;
}

}  // namespace

WordTree::WordTree(int channels_, std::vector<int> parent, std::vector<int> letter, std::vector<int> column)
    : channels(channels_) {
    build(parent, letter, column);
}

WordTree::WordTree(int channels_, int depth_) : channels(channels_) {
    std::vector<int> parent{-1}, letter{-1}, column{0};
    for (int level = 0, begin = 0; level < depth_; ++level) {
        const int end = int(parent.size());
        for (int p = begin; p < end; ++p)
            for (int c = 0; c < channels; ++c) {
                column.push_back(int(column.size()));
                parent.push_back(p);
                letter.push_back(c);
            }
        begin = end;
    }
    build(parent, letter, column);
}

void WordTree::build(const std::vector<int>& parent, const std::vector<int>& letter, const std::vector<int>& column) {
    if (parent.empty() || parent.size() != letter.size() || parent.size() != column.size() || channels < 1)
        throw std::invalid_argument("inconsistent word tree");
    Builder builder(channels, parent, letter, column);
    std::vector<int> path;
    builder.cut(0, path);
    tiles = std::move(builder.tiles);
    depth = builder.height[0];
    root_column = column[0];
    for (int c : column) columns += c >= 0;
    for (Tile& tile : tiles) {
        prune(tile.ops, 0, int(tile.ops.size()), tile.inner);
        std::sort(tile.position.begin(), tile.position.end(),
                  [&](int a, int b) { return tile.start[a] < tile.start[b]; });
        for (int position : tile.position) tile.filled.push_back(tile.start[position]);
        max_size = std::max(max_size, int(tile.start.size()));
        max_inner = std::max(max_inner, int(tile.inner_start.size()));
        work += multiply_adds(tile.ops, channels);
    }
}

// The signature operation as Python sees it: a compiled word tree with forward and backward.
//
// Buffers are passed as addresses of contiguous CPU memory; the caller has checked shapes and types.

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
    const WithoutGil unlocked;
    const Batch<T> batch{at<const T>(x), at<const long long>(lengths), n, length, increments};
    return tree.forward<T>(batch, at<const T>(start), at<T>(out), threads);
}

template <class T>
void backward(const SignatureTree& tree, std::uintptr_t x, std::uintptr_t lengths, long n, long length,
              bool increments, std::uintptr_t start, std::uintptr_t grad_out, std::uintptr_t grad_x,
              std::uintptr_t grad_start, int threads) {
    const WithoutGil unlocked;
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
