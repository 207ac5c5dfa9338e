// A batch of series as it comes from the caller, and its pieces, split as planned, in the layout of the lanes: increments,
// or, for paths that a static kernel lifts, the end points of their segments.
#pragma once

#include <cmath>
#include <vector>

#include "failure.hpp"
#include "plan.hpp"

namespace siggpde {

template <class T>
struct SeriesBatch {
    const T* data;  // [series][point][channel]
    long count, points;
    int channels;
    const long* lengths;  // [series], or null: all have `points`
    const T* scale;       // [channel], or null
    StaticKernel kernel = {};

    long length(long series) const { return lengths ? lengths[series] : points; }
    const T* begin(long series) const { return data + series * points * channels; }

    // `members` of the batch, at most a vector's width, one a lane.
    LaneSeries<T> lanes(const long* members, int how_many, int width) const {
        LaneSeries<T> out;
        out.count = how_many;
        out.channels = channels;
        out.scale = scale;
        for (int lane = 0; lane < width; ++lane) {
            const long series = members[lane < how_many ? lane : 0];
            out.rows[lane] = begin(series);
            out.points[lane] = length(series);
        }
        return out;
    }

    // The squared length of the segment that starts here, in the Hilbert space of the static kernel.
    double squared_segment(const T* at) const {
        double r = 0;
        for (int c = 0; c < channels; ++c) {
            double d = double(at[channels + c]) - double(at[c]);
            if (scale) d *= double(scale[c]);
            d /= kernel.bandwidth;
            r += d * d;
        }
        return kernel.squared_segment(r);
    }

    std::vector<double> squared_segments(long series) const {
        std::vector<double> squared(length(series) - 1);
        const T* at = begin(series);
        for (double& r : squared) r = squared_segment(at), at += channels;
        return squared;
    }

    // The first number of this series that is not finite, if there is one.
    Failure find_not_finite(long series) const {
        const T* at = begin(series);
        for (long i = 0; i < length(series) * channels; ++i)
            if (!std::isfinite(at[i])) return {Failure::not_finite, series, i / channels, i % channels};
        return {};
    }

    // Increments of a series, split as planned, at out[(piece * channels + c) * stride]; returns the pieces written.
    long pack(long series, const Plan& plan, T* out, int stride) const {
        const long segments = length(series) - 1;
        const T* at = begin(series);
        long written = 0;
        for (long i = 0; i < segments; ++i, at += channels) {
            const int count = segment_pieces(at, plan);
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

    // The reverse of pack: gradients of pieces, added up to gradients of increments [segment][channel].
    template <class Out>
    void add_unpacked(long series, const Plan& plan, const T* of_pieces, int stride, Out* out) const {
        const long segments = length(series) - 1;
        const T* at = begin(series);
        long piece = 0;
        for (long i = 0; i < segments; ++i, at += channels) {
            const int count = segment_pieces(at, plan);
            for (int c = 0; c < channels; ++c) {
                double sum = 0;
                for (int p = 0; p < count; ++p) sum += double(of_pieces[((piece + p) * channels + c) * stride]);
                out[i * channels + c] += Out(sum / count);
            }
            piece += count;
        }
    }

    // The segments of all pieces of a series that is lifted; returns the pieces written. `starts` [piece] becomes 0 where a
    // piece is not the first of its segment.
    long pack_lifted(long series, const Plan& plan, T* from, T* to, T* factor, unsigned char* starts, int stride) const {
        const long segments = length(series) - 1;
        const T* at = begin(series);
        long written = 0;
        for (long i = 0; i < segments; ++i, at += channels) {
            const int count = segment_pieces(at, plan);
            for (int p = 0; p < count; ++p, ++written) {
                for (int c = 0; c < channels; ++c) {
                    from[(written * channels + c) * stride] = packed(series, at, c);
                    to[(written * channels + c) * stride] = packed(series, at + channels, c);
                }
                factor[written * stride] = T(1) / T(count);
                if (p > 0) starts[written] = 0;
            }
        }
        return written;
    }

    // The reverse of pack_lifted: gradients at the ends and starts of segments, `steps` of them, added up to those of
    // points [point][channel]. Steps after the end of the series rest at its last point.
    template <class Out>
    void add_lifted(long series, const Plan& plan, const T* of_ends, const T* of_starts, long steps, int stride,
                    Out* out) const {
        const long segments = length(series) - 1;
        const T* at = begin(series);
        long piece = 0;
        for (long i = 0; i < segments; ++i, at += channels) {
            const int count = segment_pieces(at, plan);
            for (int p = 0; p < count; ++p, ++piece)
                for (int c = 0; c < channels; ++c) {
                    const long index = (piece * channels + c) * stride;
                    out[i * channels + c] += Out(of_starts[index]);
                    out[(i + 1) * channels + c] += Out(of_ends[index]);
                }
        }
        for (; piece < steps; ++piece)
            for (int c = 0; c < channels; ++c) {
                const long index = (piece * channels + c) * stride;
                out[segments * channels + c] += Out(of_ends[index]) + Out(of_starts[index]);
            }
    }

    // A coordinate of a point for a static kernel: scaled, and then with the first point of its series at the origin.
    T packed(long series, const T* point, int c) const {
        return scale ? (point[c] - begin(series)[c]) * scale[c] : point[c];
    }

private:
    int segment_pieces(const T* at, const Plan& plan) const {
        return plan.longest > 0 ? piece_count(plan, std::sqrt(squared_segment(at))) : plan.uniform;
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

}  // namespace siggpde
