// What kernels include, compiled once for all of them where the compiler can keep that: it takes longer than they do.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "watch.h"
