// SHA-256 with the test vectors of its standard, and random bytes.
#include "base/sha256.hpp"

#include <gtest/gtest.h>

#include <set>

namespace shakedown::sha256_test {
namespace {

TEST(Sha256, IsThatOfFips180) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, OfPiecesIsThatOfTheWhole) {
  const std::string bytes(300, 'x');
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    Sha256 hash;
    for (std::size_t at = 0; at < bytes.size(); at += piece) hash.add(std::string_view(bytes).substr(at, piece));
    EXPECT_EQ(hash.digest(), sha256(bytes)) << piece;
  }
}

TEST(RandomBytes, AreNewEachTime) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(random_bytes(32));
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(seen.begin()->size(), 32u);
  EXPECT_EQ(random_bytes(0), "");
  EXPECT_EQ(hexadecimal(std::string("\x00\x0f\xff", 3)), "000fff");
}

}  // namespace
}  // namespace shakedown::sha256_test
