// Python's view of the signature kernel. Tensors come as addresses: checked, contiguous and alive, by the caller.
#include <nanobind/nanobind.h>

#include "arguments.hpp"
#include "series_batch.hpp"
#include "without_gil.hpp"

namespace nb = nanobind;

namespace siggpde {

namespace {

// None, or (code, series, index, channel, side).
nb::object as_tuple(const Failure& failure) {
    if (!failure) return nb::none();
    return nb::make_tuple(int(failure.code), failure.series, failure.index, failure.channel, failure.side);
}

template <class T>
PlanRequest make_plan_request(int refine, double tol, bool diagonal_only, bool log) {
    PlanRequest request;
    request.refine = refine;
    request.tol = tol;
    request.diagonal_only = diagonal_only;
    const double of_value = sizeof(T) == 8 ? overflowing_segment_f64 : overflowing_segment_f32;
    request.too_long = log ? overflowing_segment_log : of_value;
    return request;
}

StaticKernel make_static_kernel(int kind, double bandwidth, double amplitude, double alpha) {
    return {StaticKind(kind), bandwidth, amplitude, alpha};
}

template <class T>
nb::object diagonal(std::uintptr_t x, long count, long points, int channels, std::uintptr_t lengths, std::uintptr_t scale,
                    int refine, double tol, bool log, std::uintptr_t value, std::uintptr_t gradient, bool scales,
                    int threads, int kind, double bandwidth, double amplitude, double alpha, std::uintptr_t parameters) {
    const SeriesBatch<T> batch{at<const T>(x),     count, points, channels, at<const long>(lengths),
                               at<const T>(scale), make_static_kernel(kind, bandwidth, amplitude, alpha)};
    DiagonalRequest<T> request;
    request.plan = make_plan_request<T>(refine, tol, true, log);
    request.log = log;
    request.value = at<T>(value);
    request.gradient = at<T>(gradient);
    request.scales = scales;
    request.parameters = at<T>(parameters);
    request.threads = threads;
    Failure failure;
    {
        const WithoutGil unlocked;
        failure = solve_diagonal(batch, request);
    }
    return as_tuple(failure);
}

template <class T>
nb::object gram(std::uintptr_t x, long x_count, long x_points, std::uintptr_t x_lengths, std::uintptr_t y, long y_count,
                long y_points, std::uintptr_t y_lengths, int channels, int refine, double tol, std::uintptr_t value,
                std::uintptr_t weight, std::uintptr_t gradient_x, std::uintptr_t gradient_y, int threads, int kind,
                double bandwidth, double amplitude, double alpha, std::uintptr_t parameters, std::uintptr_t log_norm_x,
                std::uintptr_t log_norm_y) {
    const StaticKernel kernel = make_static_kernel(kind, bandwidth, amplitude, alpha);
    const SeriesBatch<T> xs{at<const T>(x), x_count, x_points, channels, at<const long>(x_lengths), nullptr, kernel};
    const SeriesBatch<T> ys{at<const T>(y), y_count, y_points, channels, at<const long>(y_lengths), nullptr, kernel};
    GramRequest<T> request;
    request.plan = make_plan_request<T>(refine, tol, false, log_norm_x != 0);
    request.log_norm_x = at<const double>(log_norm_x);
    request.log_norm_y = at<const double>(log_norm_y);
    request.parameters = at<double>(parameters);
    request.value = at<T>(value);
    request.weight = at<const T>(weight);
    request.gradient_x = at<T>(gradient_x);
    request.gradient_y = at<T>(gradient_y);
    request.threads = threads;
    Failure failure;
    {
        const WithoutGil unlocked;
        failure = solve_gram(xs, y ? &ys : nullptr, request);
    }
    return as_tuple(failure);
}

// Series that meet others again and again: a copy of them, split as planned.
template <class T>
class PreparedSeries {
public:
    PreparedSeries(std::uintptr_t x, long count, long points, int channels, std::uintptr_t lengths, double tol, int threads,
                   int kind, double bandwidth, double amplitude, double alpha)
        : data_(at<const T>(x), at<const T>(x) + count * points * channels),
          lengths_(at<const long>(lengths), at<const long>(lengths) + (lengths ? count : 0)),
          batch_{data_.data(), count, points, channels, lengths ? lengths_.data() : nullptr, nullptr,
                 make_static_kernel(kind, bandwidth, amplitude, alpha)},
          side_(batch_) {
        request_.plan = make_plan_request<T>(-1, tol, false, false);
        const WithoutGil unlocked;
        failure_ = side_.prepare(request_.plan, false, threads);
    }
    PreparedSeries(const PreparedSeries&) = delete;
    PreparedSeries& operator=(const PreparedSeries&) = delete;

    // Kernels with `y` in rows of `value`, one for each of the prepared series, which are in the lanes.
    nb::object gram(std::uintptr_t y, long count, long points, std::uintptr_t lengths, std::uintptr_t value, int threads) const {
        const SeriesBatch<T> ys{at<const T>(y), count, points, batch_.channels, at<const long>(lengths), nullptr, batch_.kernel};
        GramRequest<T> request = request_;
        request.value = at<T>(value);
        request.threads = threads;
        Failure failure = failure_;
        if (!failure) {
            const WithoutGil unlocked;
            failure = solve_gram(side_, ys, request);
        }
        return as_tuple(failure);
    }

private:
    const std::vector<T> data_;
    const std::vector<long> lengths_;
    const SeriesBatch<T> batch_;
    GramSide<T> side_;
    GramRequest<T> request_;
    Failure failure_;
};

template <class T>
void bind_prepared(nb::module_& module, const char* name) {
    nb::class_<PreparedSeries<T>>(module, name)
        .def(nb::init<std::uintptr_t, long, long, int, std::uintptr_t, double, int, int, double, double, double>())
        .def("gram", &PreparedSeries<T>::gram);
}

nb::dict failure_codes() {
    nb::dict codes;
    codes["not_finite"] = int(Failure::not_finite);
    codes["overflow"] = int(Failure::overflow);
    codes["memory"] = int(Failure::memory);
    codes["inaccurate"] = int(Failure::inaccurate);
    codes["lost"] = int(Failure::lost);
    codes["costly"] = int(Failure::costly);
    codes["negative"] = int(Failure::negative);
    return codes;
}

nb::dict static_kinds() {
    nb::dict kinds;
    kinds["linear"] = int(StaticKind::linear);
    kinds["rbf"] = int(StaticKind::rbf);
    kinds["matern12"] = int(StaticKind::matern12);
    kinds["matern32"] = int(StaticKind::matern32);
    kinds["matern52"] = int(StaticKind::matern52);
    kinds["rational_quadratic"] = int(StaticKind::rational_quadratic);
    return kinds;
}

template <class T, std::size_t count>
nb::tuple as_tuple(const T (&numbers)[count]) {
    nb::list list;
    for (const T number : numbers) list.append(number);
    return nb::tuple(list);
}

nb::dict plan_constants() {
    nb::dict constants;
    constants["scheme_degree"] = as_tuple(scheme_degree);
    constants["finite_differences"] = finite_differences;
    constants["first_legendre_scheme"] = first_legendre_scheme;
    constants["cell_work"] = as_tuple(cell_work);
    constants["most_work"] = most_work;
    constants["most_times_segments"] = most_times_segments;
    constants["longest_piece"] = longest_piece;
    constants["cut_factors"] = as_tuple(cut_factors);
    constants["overflowing_segment_f64"] = overflowing_segment_f64;
    constants["overflowing_segment_f32"] = overflowing_segment_f32;
    constants["overflowing_segment_log"] = overflowing_segment_log;
    constants["max_inflation"] = max_inflation;
    constants["max_passes"] = max_passes;
    constants["ordinary_fall"] = ordinary_fall;
    constants["roundings"] = roundings;
    constants["inaccurate_above_f64"] = inaccurate_above_f64;
    constants["inaccurate_above_f32"] = inaccurate_above_f32;
    constants["rough_tol"] = rough_tol;
    return constants;
}

}  // namespace

void bind_signature_kernel(nb::module_& module) {
    module.attr("failure_codes") = failure_codes();
    module.attr("plan_constants") = plan_constants();
    module.attr("static_kinds") = static_kinds();
    module.def("diagonal_f64", &diagonal<double>);
    module.def("diagonal_f32", &diagonal<float>);
    module.def("gram_f64", &gram<double>);
    module.def("gram_f32", &gram<float>);
    bind_prepared<double>(module, "PreparedSeries_f64");
    bind_prepared<float>(module, "PreparedSeries_f32");
}

}  // namespace siggpde
