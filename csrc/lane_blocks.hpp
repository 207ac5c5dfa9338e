// Blocks of series that advance together, one in each lane: they have the same scheme and about as many steps.
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
