// The logarithm of signatures in coordinates of the free Lie algebra: what the loops of each instruction set offer.
#pragma once

#include "arguments.hpp"
#include "isa.hpp"

namespace siggpde {

// Which coordinates to compute, as plain pointers.
//
// The signature has a column for every word shorter than `depth`, in order, and one for every Lyndon word of that
// length. log(S)^w for a Lyndon word w is the coefficient of w; coordinate i of the basis is the sum over
// k in [row[i], row[i + 1]) of value[k] log(S)^(word `index[k]`). Without `row` the coordinates are these coefficients.
struct LogView {
    int channels;
    int depth;
    long columns;        // of the signature
    const long* offset;  // column of the first word of each length below `depth`, and after them the end
    int words;           // Lyndon words
    const int* column;   // of each Lyndon word
    const int* split;    // where the splits of each Lyndon word start in `prefix` and `suffix`, and the end
    const int* prefix;   // a word w of m letters has m - 1 splits into two words: the column of the first
    const int* suffix;   // and that of the second
    const int* row;      // or null
    const int* index;
    const double* value;
    int coordinates;
};

// The loops for one instruction set and one number type. A block is `width` consecutive series; `memory` has as many
// vectors as the functions say, aligned to 64 bytes.
template <class T>
struct LogLoops {
    int width;
    int vector_bytes;
    long (*forward_memory)(const LogView&);
    long (*backward_memory)(const LogView&);
    // signature (n, columns) -> out (n, coordinates); false if a result is not finite
    bool (*forward)(const LogView&, long n, long block, const T* signature, T* out, void* memory);
    // grad_out (n, coordinates) -> grad_signature (n, columns)
    void (*backward)(const LogView&, long n, long block, const T* signature, const T* grad_out, T* grad_signature,
                     void* memory);
};

SIGGPDE_DECLARE(LogLoops<float>, logsignature_float)
SIGGPDE_DECLARE(LogLoops<double>, logsignature_double)

}  // namespace siggpde
