#include "plan.hpp"

#include <algorithm>
#include <array>

namespace siggpde {

namespace {

// C_m of every scheme.
struct Bounds {
    std::array<double, schemes> of;
    constexpr Bounds() : of{} {
        for (int s = 0; s < schemes; ++s) {
            const int m = scheme_degree[s];
            double ratio = 1;  // m! / (2m)!
            for (int i = m + 1; i <= 2 * m; ++i) ratio /= i;
            of[s] = 2 * ratio * ratio / (2 * m + 1);
        }
    }
};
constexpr Bounds bounds;

// A bound of sum_j |piece_j|^(2m+1) from the sums of the fourth and eighth powers, by Hoelder's inequality.
double power_sum(int m, double fourth, double eighth, double longest) {
    if (!(fourth > 0)) return 0;
    const double square = std::sqrt(eighth / fourth);  // of a mean of the lengths
    if (m == 2) return fourth * std::sqrt(square);
    if (m == 3) return fourth * square * std::sqrt(square);
    double sum = eighth * longest;
    for (int i = 4; i < m; ++i) sum *= longest * longest;
    return sum;
}

// The first scheme whose bound meets the tolerance, or the last. For degree m the bound is C_m sum_j |piece_j|^(2m+1),
// times a factor where pieces are long, for the powers of rho left out, which grow faster than the rest (measured: they
// matter from degree 4 on as soon as pieces exceed 1, below only when they do so by far); and for a series that meets
// only itself times what levels m and m + 1 can be of its signature, `length` bounding its length.
int cheapest_scheme(double fourth, double eighth, double longest, double length, const PlanRequest& request,
                    double& value) {
    const double excess = longest > 1 ? longest : 1;
    const double excess_squared = excess * excess;
    double large = excess_squared * excess_squared * excess_squared, level = length * length / 2;
    for (int scheme = first_legendre_scheme, m = scheme_degree[scheme];; ++scheme) {
        for (; m < scheme_degree[scheme]; ++m) {
            large *= m == 3 && longest > 1 ? 10 / excess : excess;
            level *= length / (m + 1);
        }
        value = bounds.of[scheme] * power_sum(m, fourth, eighth, longest) * large;
        if (request.diagonal_only) value *= std::min(1.0, level) * std::min(1.0, level * length / (m + 1));
        if (value <= request.tol || scheme + 1 == schemes) return scheme;
    }
}

struct Cut {
    double steps = 0, fourth = 0, eighth = 0, longest = 0;
};

// The path with its segments cut into pieces no longer than `piece`.
Cut cut_path(const std::vector<double>& squared, double piece) {
    Cut cut;
    for (double square : squared) {
        const double r = std::sqrt(square);
        const double count = double(piece_count(r, piece)), part = r / count;
        cut.steps += count;
        const double power = part * part * part * part;
        cut.fourth += count * power;
        cut.eighth += count * power * power;
        cut.longest = std::max(cut.longest, part);
    }
    return cut;
}

}  // namespace

Verdict make_plan(const PathSize& path, const PlanRequest& request, Plan& plan) {
    plan = Plan{};
    plan.steps = path.segments;
    const bool within = path.largest <= request.too_long * request.too_long && std::isfinite(path.sum);
    if (!within) return Verdict::too_large;
    if (request.refine >= 0) {
        plan.uniform = 1 << request.refine;
        plan.steps = path.segments * plan.uniform;
        return Verdict::done;
    }
    plan.scheme = first_legendre_scheme;
    if (path.largest == 0) return Verdict::done;
    const double longest = std::sqrt(path.largest), length = std::sqrt(double(path.segments) * path.sum);
    if (longest > longest_piece) return Verdict::cut;
    plan.scheme = cheapest_scheme(path.fourth, path.eighth, longest, length, request, plan.estimate);
    const bool cheap = scheme_degree[plan.scheme] <= 4 && plan.estimate <= request.tol;
    return cheap ? Verdict::done : Verdict::cut;
}

void make_cuts(const PathSize& path, const std::vector<double>& squared, const PlanRequest& request, Plan& plan) {
    const double longest = std::sqrt(path.largest), length = std::sqrt(double(path.segments) * path.sum);
    bool within_tol = longest <= longest_piece && plan.estimate <= request.tol;
    double best = longest <= longest_piece ? cell_work[plan.scheme] * double(path.segments) * double(path.segments) : 0;
    for (int factor : cut_factors) {
        const double piece = std::min(longest, longest_piece) / factor;
        if (piece >= longest) continue;
        const Cut split = cut_path(squared, piece);
        // More cuts only cost more: stop where even the cheapest scheme would.
        if (within_tol && cell_work[first_legendre_scheme] * split.steps * split.steps >= best) break;
        double value;
        const int scheme = cheapest_scheme(split.fourth, split.eighth, split.longest, length, request, value);
        const double cost = cell_work[scheme] * split.steps * split.steps;
        const bool meets = value <= request.tol;
        if (best > 0 && (within_tol ? !meets || cost >= best : !meets && value >= plan.estimate)) continue;
        plan = Plan{scheme, 1, piece, value, long(split.steps)};
        best = cost;
        within_tol = meets;
    }
}

}  // namespace siggpde
