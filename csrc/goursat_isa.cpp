#include "lanes.hpp"
