// One list of members for each struct, from which it is written and read: as JSON in files, as CBOR between ranks.
// Errors of reading name the file and the member. Not for headers that nvcc reads: it needs nlohmann_json.
//
//   template <class Archive>
//   void members(Archive& archive, Evidence& evidence) {
//     archive("key", evidence.key)("value", evidence.value);
//   }
//
// The order is that of the file. Members may be booleans, numbers, texts, enums with words (base/names.hpp), structs
// with members, and optionals, vectors, sets and maps by text of these. An optional may be null or absent.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/files.hpp"
#include "base/group.hpp"
#include "base/names.hpp"
#include "base/text.hpp"

namespace shakedown {

/// A member of a document and where it stands, so that an error names the file and the member.
class Field {
 public:
  using json = nlohmann::json;

  /// Texts of a file are made one line: what a host, a row or an error is called shall not look like another line of
  /// whatever shows it. Those of a rank stay as they are.
  enum class Origin { file, rank };

  Field(const std::filesystem::path& file, std::string where, const json& value, Origin origin = Origin::file)
      : file_(&file), where_(std::move(where)), value_(&value), origin_(origin) {}
  Field(std::filesystem::path&&, std::string, const json&, Origin = Origin::file) = delete;  // it does not keep them

  const std::filesystem::path& file() const { return *file_; }
  const json& value() const { return *value_; }

  [[noreturn]] void refuse(const std::string& what) const;
  void require_object() const;

  /// A member that must be there.
  Field operator[](const char* name) const;
  /// nullopt if it is absent or null.
  std::optional<Field> find(const char* name) const;

  template <class Visitor>
  void each(Visitor visit) const {
    if (!value_->is_array()) refuse("expected an array");
    std::size_t i = 0;
    for (const json& item : *value_) visit(Field(*file_, where_ + "[" + std::to_string(i++) + "]", item, origin_));
  }

  std::string text() const;
  bool boolean() const;
  double number() const;
  int integer() const;
  int positive_integer() const;
  std::uint64_t unsigned_integer() const;

 private:
  std::string path_of(const char* name) const;

  const std::filesystem::path* file_;
  std::string where_;
  const json* value_;
  Origin origin_;
};

// Kinds of members, told apart by their templates.
template <class T, template <class...> class Template>
inline constexpr bool is_a = false;
template <template <class...> class Template, class... Parts>
inline constexpr bool is_a<Template<Parts...>, Template> = true;

/// Writes members in the order of the list. A number that is none becomes null in a file; between ranks it stays.
class Writer {
 public:
  using json = nlohmann::ordered_json;

  template <class T>
  static json written(const T& value) {
    if constexpr (is_a<T, std::optional>) {
      return value ? written(*value) : json(nullptr);
    } else if constexpr (is_a<T, std::vector> || is_a<T, std::set>) {
      json list = json::array();
      for (const auto& item : value) list.push_back(written<typename T::value_type>(item));
      return list;
    } else if constexpr (is_a<T, std::map>) {
      json object = json::object();
      for (const auto& [name, item] : value) object[name] = written(item);
      return object;
    } else if constexpr (std::is_enum_v<T>) {
      return name(value);
    } else if constexpr (std::is_arithmetic_v<T> || std::same_as<T, std::string>) {
      return value;
    } else {
      Writer writer;
      members(writer, const_cast<T&>(value));  // one list serves both ways; this one only looks
      return std::move(writer.object_);
    }
  }

  template <class T>
  Writer& operator()(const char* name, const T& value) {
    object_[name] = written(value);
    return *this;
  }
  /// An enum whose word is in small letters here.
  template <Named Enum>
  Writer& in_lower_case(const char* name, Enum value) {
    object_[name] = lower(shakedown::name(value));
    return *this;
  }
  /// A member that files of earlier releases do not have.
  template <class T>
  Writer& younger(const char* name, const T& value) {
    return (*this)(name, value);
  }
  /// A member that is left out where it is as usual.
  template <class T>
  Writer& unless(const char* name, const T& value, const std::type_identity_t<T>& usual = {}) {
    return value == usual ? *this : (*this)(name, value);
  }
  /// A number that earlier releases, as the system, write as -1 where there is none.
  Writer& or_minus_one(const char* name, const std::optional<int>& value) { return (*this)(name, value); }
  /// Members of an object of their own in the file.
  Writer& inside(const char* name, std::invocable<Writer&> auto list) {
    Writer inner;
    list(inner);
    object_[name] = std::move(inner.object_);
    return *this;
  }
  /// What follows from other members, for readers of the file; it is not read back.
  template <class T>
  Writer& derived(const char* name, const T& value) {
    return (*this)(name, value);
  }

 private:
  json object_ = json::object();
};

/// The value of a field.
template <class T>
T read_as(const Field& field);

/// Fills members from a field.
class Reader {
 public:
  explicit Reader(Field field) : field_(std::move(field)) {}

  template <class T>
  static void read(const Field& field, T& value) {
    if constexpr (is_a<T, std::optional>) {
      value.reset();
      if (!field.value().is_null()) read(field, value.emplace());
    } else if constexpr (std::same_as<T, std::vector<std::optional<double>>>) {
      read_column(field, value);
    } else if constexpr (is_a<T, std::vector>) {
      value.clear();
      // In place: g++ takes the members of one that is moved in for uninitialised.
      field.each([&](const Field& item) { read(item, value.emplace_back()); });
    } else if constexpr (is_a<T, std::set>) {
      value.clear();
      field.each([&](const Field& item) { value.insert(read_as<typename T::value_type>(item)); });
    } else if constexpr (is_a<T, std::map>) {
      value.clear();
      field.require_object();
      for (const auto& [name, item] : field.value().items()) read(field[name.c_str()], value[name]);
    } else if constexpr (std::same_as<T, bool>) {
      value = field.boolean();
    } else if constexpr (std::is_enum_v<T>) {
      const std::string word = field.text();
      for (std::size_t i = 0; i < words(T{}).size(); ++i) {
        value = static_cast<T>(i);
        if (lower(name(value)) == lower(word)) return;
      }
      field.refuse("\"" + word + "\" is not known to this release");
    } else if constexpr (std::floating_point<T>) {
      value = field.number();
    } else if constexpr (std::signed_integral<T>) {
      value = field.integer();
    } else if constexpr (std::unsigned_integral<T>) {
      value = field.unsigned_integer();
    } else if constexpr (std::same_as<T, std::string>) {
      value = field.text();
    } else {
      Reader reader(field);
      members(reader, value);
    }
  }

  template <class T>
  Reader& operator()(const char* name, T& value) {
    if constexpr (is_a<T, std::optional>) {
      value.reset();
      if (const auto member = field_.find(name)) read(*member, value);
    } else {
      read(field_[name], value);
    }
    return *this;
  }
  template <Named Enum>
  Reader& in_lower_case(const char* name, Enum& value) {
    return (*this)(name, value);
  }
  template <class T>
  Reader& younger(const char* name, T& value) {
    if (const auto member = field_.find(name)) read(*member, value);
    return *this;
  }
  template <class T>
  Reader& unless(const char* name, T& value, const std::type_identity_t<T>& = {}) {
    return younger(name, value);
  }
  Reader& or_minus_one(const char* name, std::optional<int>& value) {
    const auto member = field_.find(name);
    return member && member->value() == -1 ? *this : (*this)(name, value);
  }
  Reader& inside(const char* name, std::invocable<Reader&> auto list) {
    Reader inner(field_[name]);
    list(inner);
    return *this;
  }
  template <class T>
  Reader& derived(const char*, const T&) {
    return *this;
  }

 private:
  // One value of each rank, of which there may be ten thousand: no path is made up for each.
  static void read_column(const Field& field, std::vector<std::optional<double>>& values);

  Field field_;
};

template <class T>
T read_as(const Field& field) {
  T value{};
  Reader::read(field, value);
  return value;
}

// Documents as text and as bytes. Compiled once: the library's own take seconds in each file that calls them.

/// In one line for an indent of -1. What is not UTF-8 is replaced, so that the document can be read.
std::string text_of_document(const nlohmann::json& document, int indent);
std::string text_of_document(const nlohmann::ordered_json& document, int indent);
std::string cbor_of_document(const nlohmann::ordered_json& document);
nlohmann::json document_of_cbor(const std::string& bytes);
/// Discarded where the text is no JSON.
nlohmann::json document_of_text(std::string_view text);

/// A value as JSON.
template <class T>
std::string json_text(const T& value, int indent) {
  return text_of_document(Writer::written(value), indent);
}

/// A value as bytes, and back. `from` says in an error whose bytes they are.
template <class T>
std::string packed(const T& value) {
  return cbor_of_document(Writer::written(value));
}
template <class T>
T unpacked(const std::string& bytes, const std::string& from) {
  const std::filesystem::path place(from);
  const auto document = document_of_cbor(bytes);
  return read_as<T>(Field(place, "", document, Field::Origin::rank));
}

template <class T>
std::vector<T> unpacked_by_rank(const std::vector<std::string>& messages) {
  std::vector<T> values;
  for (const auto& bytes : messages) values.push_back(unpacked<T>(bytes, "rank " + std::to_string(values.size())));
  return values;
}

/// The values of all ranks in rank order, on all ranks. Collective.
template <class T>
std::vector<T> gather(Group& group, const T& mine) {
  return unpacked_by_rank<T>(group.gather(packed(mine)));
}

/// The same on the first rank; on the others nothing. Collective.
template <class T>
std::vector<T> gather_to_first(Group& group, const T& mine) {
  const auto messages = group.gather_to_first(packed(mine));
  return group.rank() == 0 ? unpacked_by_rank<T>(messages) : std::vector<T>{};
}

/// The value of `root`, on all ranks; `mine` counts there only. Collective.
template <class T>
T broadcast(Group& group, const T& mine, int root = 0) {
  auto bytes = group.rank() == root ? packed(mine) : "";
  auto length = static_cast<std::uint64_t>(bytes.size());
  group.broadcast(std::as_writable_bytes(std::span(&length, 1)), root);
  bytes.resize(length);
  group.broadcast(std::as_writable_bytes(std::span(bytes)), root);
  return unpacked<T>(bytes, "rank " + std::to_string(root));
}

}  // namespace shakedown
