// What each SM, or each worker of the host, has computed and compared.
#pragma once

namespace shakedown {

/// The results of one SM since the last reset, in device memory and on the host. A product is a tile product, or a page
/// that was read.
struct SmRecord {
  unsigned long long products, wrong_products, wrong_words;
  unsigned has_first;      // 1 after the first wrong word
  unsigned product, word;  // of the first wrong word
  unsigned long long got, expected;
};

}  // namespace shakedown
