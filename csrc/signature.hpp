// A set of words as a tree, cut into tiles that fit the first-level cache.
//
// A word's parent is the word without its last letter. What a step of a path does to the coefficient of a word needs
// only that word's ancestors, so a tree may be cut into several prefix-closed trees (tiles) that share a few
// ancestors, and each tile walks the whole path alone with its coefficients in cache. A tile is a list of operations
// in depth-first order; the coefficients of its words are stored in that same order.
#pragma once

#include <vector>

#include "arguments.hpp"
#include "isa.hpp"

namespace siggpde {

// One operation on a tile. `depth` is the length of the word (node) or of the parent (leaves, full).
struct TreeOp {
    enum Kind : int {
        node,    // one word with descendants: `letter`, and `levels` = 1 + height of the subtree below it
        leaves,  // `levels` words without descendants, children of one parent, letters from `letter` on
        full,    // the whole subtree below a parent: every letter, `levels` times
    };
    Kind kind;
    int depth;
    int letter;
    int levels;
    int end;  // the operation after this one's subtree
};

inline constexpr int max_full_levels = 8;

struct Tile {
    std::vector<TreeOp> ops;       // every word of the tile
    std::vector<TreeOp> inner;     // the same without the words that have no descendants, in the same order
    std::vector<int> start;        // for each word, in storage order, its column or -1
    std::vector<int> inner_start;  // the same for the words of `inner`
    std::vector<int> filled;       // the output columns that this tile fills, ascending
    std::vector<int> position;     // for each of them, the position of its word in storage
};

struct WordTree {
    // Words sorted by length then lexicographically, the empty word first. For each: the index of its parent
    // (-1 for the empty word), its last letter, and its output column (-1: not wanted).
    WordTree(int channels, std::vector<int> parent, std::vector<int> letter, std::vector<int> column);

    // All the words up to a length, in order: column i is word i.
    WordTree(int channels, int depth);

    int channels;
    int depth = 0;         // length of the longest word
    int columns = 0;       // number of output columns
    int root_column = -1;  // output column of the empty word, or -1
    int max_size = 0;      // words in the largest tile
    int max_inner = 0;     // words with descendants in the tile that has most of them
    double work = 0;       // multiply-adds for one step of one series
    std::vector<Tile> tiles;

private:
    void build(const std::vector<int>& parent, const std::vector<int>& letter, const std::vector<int>& column);
};

// The signature of a batch of paths: what the loops compiled for each instruction set offer to the rest.

// The word tree as plain pointers: files compiled for one instruction set use no template of the standard library.
struct TileView {
    const TreeOp* ops;
    int n_ops;
    const TreeOp* inner;
    int n_inner;
    const int* start;
    const int* inner_start;
    const int* filled;
    const int* position;
    int n_filled;
    int size;
    int inner_size;
};

struct TreeView {
    const TileView* tiles;
    int n_tiles;
    int channels;
    int depth;
    int root_column;
    int max_size;
    int max_inner;
    long columns;
};

// A batch of series, (n, length, channels), contiguous. Only the first lengths[i] rows of series i count.
template <class T>
struct Batch {
    const T* x;
    const long long* lengths;  // or null: all of them
    long n;
    long length;
    bool increments;  // the rows are increments of the path, not its points
};

// Of the codes of Failure those that a signature can have.
enum Status : int { ok = Failure::none, input_not_finite = Failure::not_finite, overflow = Failure::overflow };

// The loops for one instruction set and one number type. A block is `width` consecutive series; `memory` has
// as many vectors as forward_memory or backward_memory says, aligned to 64 bytes.
template <class T>
struct SignatureLoops {
    int width;
    int vector_bytes;
    long (*forward_memory)(const TreeView&, const Batch<T>&);
    long (*backward_memory)(const TreeView&, const Batch<T>&);
    // out (n, columns); start (n, columns), or null: the signature before the first increment (else 1, 0, 0, ...)
    Status (*forward)(const TreeView&, const Batch<T>&, long block, const T* start, T* out, void* memory);
    // grad_out (n, columns) -> grad_x like x and, where not null, grad_start (n, columns)
    void (*backward)(const TreeView&, const Batch<T>&, long block, const T* start, const T* grad_out, T* grad_x,
                     T* grad_start, void* memory);
};

SIGGPDE_DECLARE(SignatureLoops<float>, signature_float)
SIGGPDE_DECLARE(SignatureLoops<double>, signature_double)

}  // namespace siggpde
