// A batch of series as it comes from the caller, and how it is laid out for the vector lanes.
#pragma once

#include <cmath>
#include <vector>

#include "plan.hpp"

namespace siggpde {

// What went wrong, and where.
struct Failure {
    // `inaccurate`: the result is there, but rounding has taken most of its digits; `lost`: all of them.
    enum Code { none = 0, not_finite = 1, overflow = 2, memory = 3, inaccurate = 4, lost = 5 };
    Code code = none;
    long series = -1, time = -1, channel = -1;
    int side = 0;  // 0: x, 1: y
    explicit operator bool() const { return code != none; }
};

template <class T>
struct Batch {
    const T* data;        // [series][point][channel]
    long count, points;
    int channels;
    const long* lengths;  // [series], or null: all have `points`
    const T* scale;       // [channel], or null

    long segments(long series) const { return (lengths ? lengths[series] : points) - 1; }
    const T* begin(long series) const { return data + series * points * channels; }

    // The lengths of the segments; false with the failure filled in if a number is not finite.
    bool measure(long series, PathSize& size, Failure& failure) const {
        const long n = segments(series);
        const T* at = begin(series);
        size.squared.resize(n);
        double largest = 0, sum = 0, squares = 0;
        for (long i = 0; i < n; ++i) {
            double r = 0;
            for (int c = 0; c < channels; ++c) {
                double d = double(at[(i + 1) * channels + c]) - double(at[i * channels + c]);
                if (scale) d *= double(scale[c]);
                r += d * d;
            }
            size.squared[i] = r;
            largest = r > largest ? r : largest;
            sum += r;
            squares += r * r;
        }
        size.largest = largest;
        size.sum = sum;
        size.sum_of_squares = squares;
        if (std::isfinite(sum) && (n > 0 || std::isfinite(sum_of_point(at)))) return true;
        failure = {Failure::overflow, series, -1, -1};
        for (long i = 0; i <= n; ++i)
            for (int c = 0; c < channels; ++c)
                if (!std::isfinite(at[i * channels + c])) {
                    failure = {Failure::not_finite, series, i, c};
                    return false;
                }
        return n == 0;
    }

    // Increments of a series, split as planned, at out[(piece * channels + c) * stride]; returns the pieces written.
    long pack(long series, const Plan& plan, T* out, int stride) const {
        const long n = segments(series);
        const T* at = begin(series);
        long written = 0;
        for (long i = 0; i < n; ++i, at += channels) {
            const int count = parts(at, plan);
            for (int c = 0; c < channels; ++c) {
                T d = at[channels + c] - at[c];
                if (scale) d *= scale[c];
                if (count > 1) d /= T(count);
                for (int p = 0; p < count; ++p) out[((written + p) * channels + c) * stride] = d;
            }
            written += count;
        }
        return written;
    }

    // The reverse of pack: gradients of pieces become gradients of increments, [segment][channel], times `factor`.
    template <class Out>
    void add_unpacked(long series, const Plan& plan, const T* pieces_gradient, int stride, double factor, Out* out) const {
        const long n = segments(series);
        const T* at = begin(series);
        long piece = 0;
        for (long i = 0; i < n; ++i, at += channels) {
            const int count = parts(at, plan);
            for (int c = 0; c < channels; ++c) {
                double sum = 0;
                for (int p = 0; p < count; ++p) sum += double(pieces_gradient[((piece + p) * channels + c) * stride]);
                out[i * channels + c] += Out(factor * sum / count);
            }
            piece += count;
        }
    }

private:
    int parts(const T* at, const Plan& plan) const {
        if (plan.longest <= 0) return plan.uniform;
        double r = 0;
        for (int c = 0; c < channels; ++c) {
            double d = double(at[channels + c]) - double(at[c]);
            if (scale) d *= double(scale[c]);
            r += d * d;
        }
        return pieces(plan, std::sqrt(r));
    }

    double sum_of_point(const T* at) const {
        double sum = 0;
        for (int c = 0; c < channels; ++c) sum += double(at[c]);
        return sum;
    }
};

// Gradients of increments [segment][channel] become gradients of knots [point][channel], written.
template <class T, class In>
void increments_to_knots(const In* increments, long segments, long points, int channels, T* knots) {
    for (long i = 0; i < points; ++i)
        for (int c = 0; c < channels; ++c) {
            In before = i > 0 && i <= segments ? increments[(i - 1) * channels + c] : In(0);
            In after = i < segments ? increments[i * channels + c] : In(0);
            knots[i * channels + c] = T(before - after);
        }
}

// A segment so long that the kernel of some part of the path exceeds the type's range.
template <class T>
constexpr double overflowing_segment() {
    return sizeof(T) == 8 ? 700.0 : 87.0;
}

}  // namespace siggpde
