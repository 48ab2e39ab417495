// The two functions of <algorithm> that are needed: that header takes longer to compile than this runtime.
#pragma once

template <class T> constexpr T least(T a, T b) { return b < a ? b : a; }
template <class T> constexpr T most(T a, T b) { return a < b ? b : a; }
