// The logarithm of one block of signatures and its reverse pass, compiled once for each instruction set.
//
// With x = S - 1, Horner's scheme for log(1 + x) = x - x^2 / 2 + x^3 / 3 - .. is
//
//     A_D = 1 / D,    A_k = 1 / k - x A_(k+1),    log(1 + x) = x A_1,
//
// where products are those of tensors, and A_k is needed up to words of D - k letters. The last product is the only
// one with words of D letters, and of these it is computed for Lyndon words alone.
#include "lanes.hpp"
#include "logsignature.hpp"

namespace siggpde::SIGGPDE_ISA {

namespace {

// The rows of a block; those past `count` are taken as zero and never written.
template <class T>
struct Rows {
    long first;
    int count;
    Rows(long n, long block) : first(block * width<T>) {
        count = n - first < width<T> ? int(n - first) : width<T>;
    }
    bool full() const { return count == width<T>; }
};

// Columns [from, from + number) of a matrix to lanes.
template <class T>
void load_columns(const Rows<T>& rows, const T* matrix, long columns, long from, long number, vec<T>* to) {
    const T* at = matrix + rows.first * columns + from;
    long i = 0;
    for (; rows.full() && i + width<T> <= number; i += width<T>) {
        vec<T> block[width<T>];
        load_block<T>(at + i, columns, block);
        for (int j = 0; j < width<T>; ++j) to[i + j] = block[j];
    }
    for (; i < number; ++i) {
        vec<T> v{};
        for (int lane = 0; lane < rows.count; ++lane) v[lane] = at[lane * columns + i];
        to[i] = v;
    }
}

template <class T>
void store_columns(const Rows<T>& rows, const vec<T>* from, long number, T* matrix, long columns, long to) {
    T* at = matrix + rows.first * columns + to;
    long i = 0;
    for (; rows.full() && i + width<T> <= number; i += width<T>) {
        vec<T> block[width<T>];
        for (int j = 0; j < width<T>; ++j) block[j] = from[i + j];
        store_block<T>(at + i, columns, block);
    }
    for (; i < number; ++i)
        for (int lane = 0; lane < rows.count; ++lane) at[lane * columns + i] = from[i][lane];
}

// Vectors handed out from the caller's memory, or merely counted when there is none.
template <class T>
struct Pieces {
    vec<T>* base;
    long used = 0;
    vec<T>* take(long count) {
        used += count;
        return base ? base + used - count : nullptr;
    }
};

// x and the polynomials of Horner's scheme, each stored as the signature is, with the column of the empty word unused.
template <class T>
struct Horner {
    const LogView& view;
    vec<T>*x, *a;

    Horner(const LogView& view_, Pieces<T>& pieces) : view(view_) {
        x = pieces.take(view.columns);
        a = pieces.take(size());
    }

    // A_1 comes first, up to D - 1 letters, then A_2 up to D - 2, ..
    long start(int k) const {
        long at = 0;
        for (int i = 1; i < k; ++i) at += view.offset[view.depth - i + 1];
        return at;
    }
    long size() const { return start(view.depth) + 1; }
    long words(int letters) const { return view.offset[letters + 1] - view.offset[letters]; }

    void load(const Rows<T>& rows, const T* signature) {
        load_columns<T>(rows, signature, view.columns, 0, view.columns, x);
    }

    void run() {
        for (int k = view.depth - 1; k >= 1; --k) {
            const T share = T(-1) / T(k + 1);
            vec<T>* mine = a + start(k);
            const vec<T>* next = a + start(k + 1);
            for (int m = 1; m <= view.depth - k; ++m) {
                vec<T>* out = mine + view.offset[m];
                const vec<T>* level = x + view.offset[m];
                for (long i = 0; i < words(m); ++i) out[i] = level[i] * share;
                for (int j = 1; j < m; ++j) {
                    const vec<T>*left = x + view.offset[j], *right = next + view.offset[m - j];
                    const long rights = words(m - j);
                    for (long p = 0; p < words(j); ++p)
                        for (long s = 0; s < rights; ++s) out[p * rights + s] -= left[p] * right[s];
                }
            }
        }
    }

    // The reverse of `run`: from the derivatives in A_1, and zeros for the other A_k, to derivatives in x, added.
    void reverse(vec<T>* a_bar, vec<T>* x_bar) const {
        for (int k = 1; k < view.depth; ++k) {
            const T share = T(-1) / T(k + 1);
            const vec<T>*mine = a_bar + start(k), *next = a + start(k + 1);
            vec<T>* next_bar = a_bar + start(k + 1);
            for (int m = 1; m <= view.depth - k; ++m) {
                const vec<T>* bar = mine + view.offset[m];
                vec<T>* level = x_bar + view.offset[m];
                for (long i = 0; i < words(m); ++i) level[i] += bar[i] * share;
                for (int j = 1; j < m; ++j) {
                    const vec<T>*left = x + view.offset[j], *right = next + view.offset[m - j];
                    vec<T>*left_bar = x_bar + view.offset[j], *right_bar = next_bar + view.offset[m - j];
                    const long rights = words(m - j);
                    for (long p = 0; p < words(j); ++p) {
                        vec<T> total{};
                        for (long s = 0; s < rights; ++s) {
                            total += bar[p * rights + s] * right[s];
                            right_bar[s] -= bar[p * rights + s] * left[p];
                        }
                        left_bar[p] -= total;
                    }
                }
            }
        }
    }
};

template <class T>
struct Forward : Horner<T> {
    vec<T>*log, *out;
    Forward(const LogView& view, Pieces<T>& pieces) : Horner<T>(view, pieces) {
        log = pieces.take(view.words);
        out = pieces.take(view.row ? view.coordinates : 0);
    }
};

template <class T>
struct Backward : Horner<T> {
    vec<T>*a_bar, *x_bar, *log_bar, *grad;
    Backward(const LogView& view, Pieces<T>& pieces) : Horner<T>(view, pieces) {
        a_bar = pieces.take(this->size());
        x_bar = pieces.take(view.columns);
        log_bar = pieces.take(view.words);
        grad = pieces.take(view.row ? view.coordinates : 0);
    }
};

template <class T>
long forward_memory(const LogView& view) {
    Pieces<T> pieces{nullptr};
    Forward<T> counted(view, pieces);
    return pieces.used;
}

template <class T>
long backward_memory(const LogView& view) {
    Pieces<T> pieces{nullptr};
    Backward<T> counted(view, pieces);
    return pieces.used;
}

template <class T>
bool forward(const LogView& view, long n, long block, const T* signature, T* out, void* base) {
    Pieces<T> pieces{static_cast<vec<T>*>(base)};
    Forward<T> f(view, pieces);
    const Rows<T> rows(n, block);
    f.load(rows, signature);
    f.run();
    for (int w = 0; w < view.words; ++w) {
        vec<T> total = f.x[view.column[w]];
        for (int i = view.split[w]; i < view.split[w + 1]; ++i) total += f.x[view.prefix[i]] * f.a[view.suffix[i]];
        f.log[w] = total;
    }
    const vec<T>* result = f.log;
    if (view.row) {
        for (int c = 0; c < view.coordinates; ++c) {
            vec<T> total{};
            for (int k = view.row[c]; k < view.row[c + 1]; ++k) total += f.log[view.index[k]] * T(view.value[k]);
            f.out[c] = total;
        }
        result = f.out;
    }
    vec<T> check{};  // becomes NaN where a number is not finite
    for (int c = 0; c < view.coordinates; ++c) check += result[c] * T(0);
    store_columns<T>(rows, result, view.coordinates, out, view.coordinates, 0);
    return sum_of_lanes<T>(check) == 0;
}

template <class T>
void backward(const LogView& view, long n, long block, const T* signature, const T* grad_out, T* grad_signature,
              void* base) {
    Pieces<T> pieces{static_cast<vec<T>*>(base)};
    Backward<T> b(view, pieces);
    const Rows<T> rows(n, block);
    b.load(rows, signature);
    b.run();
    if (view.row) {
        load_columns<T>(rows, grad_out, view.coordinates, 0, view.coordinates, b.grad);
        for (int w = 0; w < view.words; ++w) b.log_bar[w] = vec<T>{};
        for (int c = 0; c < view.coordinates; ++c)
            for (int k = view.row[c]; k < view.row[c + 1]; ++k)
                b.log_bar[view.index[k]] += b.grad[c] * T(view.value[k]);
    } else {
        load_columns<T>(rows, grad_out, view.coordinates, 0, view.coordinates, b.log_bar);
    }
    for (long i = 0; i < b.size(); ++i) b.a_bar[i] = vec<T>{};
    for (long i = 0; i < view.columns; ++i) b.x_bar[i] = vec<T>{};
    for (int w = 0; w < view.words; ++w) {
        const vec<T> bar = b.log_bar[w];
        b.x_bar[view.column[w]] += bar;
        for (int i = view.split[w]; i < view.split[w + 1]; ++i) {
            b.x_bar[view.prefix[i]] += bar * b.a[view.suffix[i]];
            b.a_bar[view.suffix[i]] += bar * b.x[view.prefix[i]];
        }
    }
    b.reverse(b.a_bar, b.x_bar);
    store_columns<T>(rows, b.x_bar, view.columns, grad_signature, view.columns, 0);
}

template <class T>
constexpr LogLoops<T> loops{width<T>,    SIGGPDE_VECTOR_BYTES, forward_memory<T>, backward_memory<T>,
                            forward<T>, backward<T>};

}  // namespace

const LogLoops<float> logsignature_float = loops<float>;
const LogLoops<double> logsignature_double = loops<double>;

}  // namespace siggpde::SIGGPDE_ISA
