// UTF-8, classes of characters and normalization form C (Unicode Standard Annex 15). The tables are those of one
// version of Unicode (unicode_table.hpp), so that no library of the machine changes the tokens of a text.
#pragma once

#include <string>
#include <string_view>

namespace shakedown::finetune::unicode {

/// Returns the code points of a text. Each longest part that begins a sequence, but is not one, becomes one U+FFFD, as
/// the Unicode Standard recommends (3.9, "Substitution of Maximal Subparts").
std::u32string from_utf8(std::string_view text);
/// Appends a code point.
void add_utf8(std::string& text, char32_t);
std::string to_utf8(std::u32string_view);

bool is_letter(char32_t);  // general category L
bool is_number(char32_t);  // general category N
bool is_space(char32_t);   // property White_Space

/// Returns a text without blanks at its ends, as Python's str.strip does.
std::string trimmed(std::string_view text);

/// Returns the canonical composition of a text.
std::u32string composed(std::u32string_view);

}  // namespace shakedown::finetune::unicode
