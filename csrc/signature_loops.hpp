// The signature of a batch of paths: what the loops compiled for each instruction set offer to the rest.
#pragma once

#include "failure.hpp"
#include "word_tree.hpp"

namespace siggpde {

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

#define SIGGPDE_DECLARE_SIGNATURE(isa)                       \
    namespace isa {                                          \
    extern const SignatureLoops<float> signature_float;      \
    extern const SignatureLoops<double> signature_double;    \
    }
SIGGPDE_DECLARE_SIGNATURE(baseline)
#if defined(SIGGPDE_X86)
SIGGPDE_DECLARE_SIGNATURE(avx2)
SIGGPDE_DECLARE_SIGNATURE(avx512)
#endif
#undef SIGGPDE_DECLARE_SIGNATURE

}  // namespace siggpde
