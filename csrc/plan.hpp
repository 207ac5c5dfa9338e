// Degree and splitting of a series, chosen from the series alone.
//
// With edges of degree m the error of k(X, Y) beside |S(X)| |S(Y)| is bounded, path by path, by
//     C_m sum_j |dx_j|^(2m+1),      C_m = 2 (m! / (2m)!)^2 / (2m+1):
// what the projection on an edge drops is orthogonal to the polynomials kept, so it meets only the part of the
// continuation that they cannot represent either, and both parts are of order |dx_j|^m (docs/design.md).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "signature_kernel.hpp"

namespace siggpde {

struct Plan {
    int scheme = finite_differences;
    int uniform = 1;        // every segment is split in this many pieces ...
    double longest = 0;     // ... or, if positive, into pieces no longer than this
    double estimate = 0;    // bound of the relative error
    long steps = 0;         // pieces in all
    bool splits() const { return longest > 0 || uniform > 1; }
    bool costly(long segments) const {
        const double most = most_times_segments * cell_work[first_legendre_scheme] * double(segments) * double(segments);
        return longest > 0 && cell_work[scheme] * double(steps) * double(steps) > std::max(most_work, most);
    }
};

struct PlanRequest {
    int refine = -1;           // >= 0: finite differences with 2^refine pieces a segment; -1: Legendre edges to `tol`
    double tol = 1e-8;
    bool diagonal_only = true;  // only k(X, X) is wanted: the high levels of a short path are then small twice
    double too_long = 700;     // a segment longer than this overflows for certain
};

// The smallest number of equal pieces no longer than `piece`.
inline int piece_count(double length, double piece) {
    if (!(length > piece)) return 1;
    const int count = int(length / piece);
    return count * piece < length ? count + 1 : count;
}

// The number of pieces that a plan splits a segment of this length into.
inline int piece_count(const Plan& plan, double length) {
    return plan.longest > 0 ? piece_count(length, plan.longest) : plan.uniform;
}

// What planning needs to know of a path: sums over its segments.
struct PathSize {
    long segments = 0;
    double largest = 0;  // |dx|^2
    double sum = 0;      // of |dx|^2
    double fourth = 0;   // sum of |dx|^4
    double eighth = 0;   // sum of |dx|^8
};

enum class Verdict { done, cut, too_large };

// A plan that splits no segment, if that is good; Verdict::cut asks for make_cuts.
Verdict make_plan(const PathSize& path, const PlanRequest& request, Plan& plan);

// The best plan that may split segments; `squared` has every |dx|^2.
void make_cuts(const PathSize& path, const std::vector<double>& squared, const PlanRequest& request, Plan& plan);

// Blocks of series that advance together, one in each lane: they have the same scheme and about as many steps.
struct Block {
    int scheme;
    long begin, count;  // range of Blocks::order
    long steps;         // of its longest series
};

struct SortKey {
    long cost, series;  // the costliest first, then by index
    bool operator<(const SortKey& other) const {
        return cost != other.cost ? cost > other.cost : series < other.series;
    }
};

struct Blocks {
    std::vector<long> order;
    std::vector<Block> blocks;

    // Sorted by scheme, then from long to short, then by index.
    Blocks(const std::vector<Plan>& plans, std::vector<long> members, int width) : order(std::move(members)) {
        std::vector<SortKey> keys(order.size());
        for (std::size_t k = 0; k < keys.size(); ++k) {
            const Plan& plan = plans[order[k]];
            keys[k] = {(long(plan.scheme) << 48) + plan.steps, order[k]};
        }
        if (!std::is_sorted(keys.begin(), keys.end())) {
            std::sort(keys.begin(), keys.end());
            for (std::size_t k = 0; k < keys.size(); ++k) order[k] = keys[k].series;
        }
        for (long at = 0, n = long(order.size()); at < n;) {
            const Plan& first = plans[order[at]];
            long end = at + 1;
            while (end < n && end - at < width && plans[order[end]].scheme == first.scheme) ++end;
            blocks.push_back({first.scheme, at, end - at, first.steps});
            at = end;
        }
    }
};

inline std::vector<long> all_members(long count) {
    std::vector<long> members(count);
    std::iota(members.begin(), members.end(), 0L);
    return members;
}

}  // namespace siggpde
