// Series that take the same scheme and about the same number of steps advance together, one a lane.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "plan.hpp"

namespace siggpde {

struct Block {
    int scheme;
    long begin, count;  // range of Blocks::order
    long steps;         // of its longest series
};

struct Blocks {
    std::vector<long> order;
    std::vector<Block> blocks;

    // Sorted by scheme, then from long to short, then by index.
    Blocks(const std::vector<Plan>& plans, std::vector<long> members, int width) : order(std::move(members)) {
        auto before = [&](long i, long j) {
            if (plans[i].scheme != plans[j].scheme) return plans[i].scheme > plans[j].scheme;
            if (plans[i].steps != plans[j].steps) return plans[i].steps > plans[j].steps;
            return i < j;
        };
        if (!std::is_sorted(order.begin(), order.end(), before)) std::sort(order.begin(), order.end(), before);
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
