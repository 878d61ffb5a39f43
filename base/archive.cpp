#include "base/archive.hpp"

#include <limits>

#include "base/limited_json.hpp"

namespace shakedown {

void Field::refuse(const std::string& what) const {
  const std::string where = path();
  throw InputError(file_->string() + ": " + (where.empty() ? "" : where + ": ") + what);
}

void Field::require_object() const {
  if (!value_->is_object()) refuse("expected an object");
}

Field Field::operator[](const char* name) const {
  require_object();
  const auto member = value_->find(name);
  if (member == value_->end()) Field(*this, name, 0, *value_).refuse("is missing");
  return {*this, name, 0, *member};
}

std::optional<Field> Field::find(const char* name) const {
  require_object();
  const auto member = value_->find(name);
  if (member == value_->end() || member->is_null()) return std::nullopt;
  return Field(*this, name, 0, *member);
}

std::string Field::text() const {
  if (!value_->is_string()) refuse("expected a string");
  return origin_ == Origin::file ? one_line(value_->get<std::string>()) : value_->get<std::string>();
}

bool Field::boolean() const {
  if (!value_->is_boolean()) refuse("expected true or false");
  return value_->get<bool>();
}

double Field::number() const {
  if (!value_->is_number()) refuse("expected a number");
  return value_->get<double>();
}

int Field::integer() const {
  if (!value_->is_number_integer() || value_->get<double>() < 0 ||
      value_->get<double>() > std::numeric_limits<int>::max()) {
    refuse("expected a whole number from 0 to " + std::to_string(std::numeric_limits<int>::max()));
  }
  return value_->get<int>();
}

int Field::positive_integer() const {
  if (integer() == 0) refuse("expected at least 1");
  return integer();
}

std::uint64_t Field::unsigned_integer() const {
  if (!value_->is_number_unsigned()) refuse("expected a whole number that is not negative");
  return value_->get<std::uint64_t>();
}

std::string Field::path() const {
  if (parent_ == nullptr) return name_;
  const std::string around = parent_->path();
  if (name_ == nullptr) return around + "[" + std::to_string(index_) + "]";
  return around.empty() ? name_ : around + "." + name_;
}

void Reader::read_column(const Field& field, RankValues& values) {
  values.clear();
  if (!field.value().is_array()) field.refuse("expected an array");
  values.reserve(field.value().size());
  for (const auto& value : field.value()) {
    if (!value.is_number() && !value.is_null()) field.refuse("expected numbers or null");
    values.push_back(value.is_null() ? OptionalDouble() : value.get<double>());
  }
}

std::string text_of_document(const nlohmann::json& document, int indent) {
  return document.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}
std::string text_of_document(const nlohmann::ordered_json& document, int indent) {
  return document.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string cbor_of_document(const nlohmann::ordered_json& document) {
  std::string bytes;
  nlohmann::ordered_json::to_cbor(document, bytes);
  return bytes;
}

nlohmann::json document_of_cbor(const std::string& bytes) { return nlohmann::json::from_cbor(bytes); }
nlohmann::json document_of_text(std::string_view text) { return limited_json<nlohmann::json>(text); }

}  // namespace shakedown
