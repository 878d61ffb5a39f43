// Serialization from one member list per struct: to JSON for files, to CBOR between ranks. Read errors name the file
// and the member. Headers that nvcc compiles must not include this file, because it needs nlohmann_json.
//
//   template <class Archive>
//   void members(Archive& archive, Evidence& evidence) {
//     archive("key", evidence.key)("value", evidence.value);
//   }
//
// The file keeps the order of the list. Members can be booleans, numbers, strings, keys, enums with words
// (base/names.hpp), structs with members, and optionals, vectors, sets and string-keyed maps of these. An optional can
// be null or absent.
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
#include "base/key.hpp"
#include "base/names.hpp"
#include "base/optional_double.hpp"
#include "base/rank_values.hpp"
#include "base/text.hpp"

namespace shakedown {

/// A member of a document, together with its path, so that an error can name the file and the member. The path is a
/// chain of pointers to the fields around it, which must outlive it: most paths are never shown, and a text of each
/// would take a tenth of the time to read a result file.
class Field {
 public:
  using json = nlohmann::json;

  /// The source of the document. A string from a file is reduced to one line, because the name of a host, a row or an
  /// error must not imitate another line of the output. A string from a rank is not changed.
  enum class Origin { file, rank };

  /// `name` is the path of the value in the document; empty for the document itself.
  Field(const std::filesystem::path& file, const char* name, const json& value, Origin origin = Origin::file)
      : file_(&file), name_(name), value_(&value), origin_(origin) {}
  /// Deleted, because the object keeps a pointer to the path.
  Field(std::filesystem::path&&, const char*, const json&, Origin = Origin::file) = delete;

  const std::filesystem::path& file() const { return *file_; }
  const json& value() const { return *value_; }

  [[noreturn]] void refuse(const std::string& what) const;
  void require_object() const;

  /// Returns a required member. Errors: InputError if it is missing.
  Field operator[](const char* name) const;
  /// Returns the member; nullopt if it is absent or null.
  std::optional<Field> find(const char* name) const;
  /// Returns an element of an array, which must have it.
  Field element(std::size_t index) const { return {*this, nullptr, index, (*value_)[index]}; }

  template <class Visitor>
  void each(Visitor visit) const {
    if (!value_->is_array()) refuse("expected an array");
    for (std::size_t i = 0; i < value_->size(); ++i) visit(element(i));
  }
  /// Calls `visit` with the name and the field of each member of an object.
  template <class Visitor>
  void each_member(Visitor visit) const {
    require_object();
    for (const auto& [name, item] : value_->get_ref<const json::object_t&>()) {
      visit(name, Field(*this, name.c_str(), 0, item));
    }
  }

  std::string text() const;
  bool boolean() const;
  double number() const;
  int integer() const;
  int positive_integer() const;
  std::uint64_t unsigned_integer() const;

 private:
  Field(const Field& parent, const char* name, std::size_t index, const json& value)
      : file_(parent.file_), parent_(&parent), name_(name), index_(index), value_(&value), origin_(parent.origin_) {}

  /// Returns "context.shakedown.ranks[3].host"; empty for the document itself.
  std::string path() const;

  const std::filesystem::path* file_;
  const Field* parent_ = nullptr;
  const char* name_;       // null for an element of an array
  std::size_t index_ = 0;  // of an element
  const json* value_;
  Origin origin_;
};

// Recognizes the template of a member type, such as std::vector.
template <class T, template <class...> class Template>
inline constexpr bool is_a = false;
template <template <class...> class Template, class... Parts>
inline constexpr bool is_a<Template<Parts...>, Template> = true;

/// Writes members in the order of the list. NaN and infinity become null in a file; messages between
/// ranks keep them.
class Writer {
 public:
  using json = nlohmann::ordered_json;

  template <class T>
  static json written(const T& value) {
    if constexpr (is_a<T, std::optional> || std::same_as<T, OptionalDouble>) {
      return value ? written(*value) : json(nullptr);
    } else if constexpr (is_a<T, std::vector> || is_a<T, std::set> || std::same_as<T, RankValues>) {
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
    } else if constexpr (std::same_as<T, Key>) {
      return value.text();
    } else {
      Writer writer;
      /// The same list of members reads and writes; the writer does not modify the value.
      members(writer, const_cast<T&>(value));
      return std::move(writer.object_);
    }
  }

  template <class T>
  Writer& operator()(const char* name, const T& value) {
    object_[name] = written(value);
    return *this;
  }
  /// Writes an enum by its word in lower case.
  template <Named Enum>
  Writer& in_lower_case(const char* name, Enum value) {
    object_[name] = lower(shakedown::name(value));
    return *this;
  }
  /// Writes a member that files of earlier releases may lack.
  template <class T>
  Writer& younger(const char* name, const T& value) {
    return (*this)(name, value);
  }
  /// Writes a member only if it differs from its default.
  template <class T>
  Writer& unless(const char* name, const T& value, const std::type_identity_t<T>& usual = {}) {
    return value == usual ? *this : (*this)(name, value);
  }
  /// Writes an optional number as -1 if it is unknown, as earlier releases and the operating system do.
  Writer& or_minus_one(const char* name, const std::optional<int>& value) { return (*this)(name, value); }
  /// Writes members into a nested object of the file.
  Writer& inside(const char* name, std::invocable<Writer&> auto list) {
    Writer inner;
    list(inner);
    object_[name] = std::move(inner.object_);
    return *this;
  }
  /// Writes a value that is computed from other members, so that users of the file need not compute it. The reader
  /// ignores it.
  template <class T>
  Writer& derived(const char* name, const T& value) {
    return (*this)(name, value);
  }

 private:
  json object_ = json::object();
};

/// Returns the value of a field.
template <class T>
T read_as(const Field& field);

/// Reads the members of a struct from a field.
class Reader {
 public:
  explicit Reader(Field field) : field_(std::move(field)) {}

  template <class T>
  static void read(const Field& field, T& value) {
    if constexpr (is_a<T, std::optional>) {
      value.reset();
      if (!field.value().is_null()) read(field, value.emplace());
    } else if constexpr (std::same_as<T, RankValues>) {
      read_column(field, value);
    } else if constexpr (is_a<T, std::vector>) {
      value.clear();
      if (field.value().is_array()) value.reserve(field.value().size());
      // Constructs the value in place, because g++ warns about uninitialised members if a value is moved in.
      field.each([&](const Field& item) { read(item, value.emplace_back()); });
    } else if constexpr (is_a<T, std::set>) {
      value.clear();
      field.each([&](const Field& item) { value.insert(read_as<typename T::value_type>(item)); });
    } else if constexpr (is_a<T, std::map>) {
      value.clear();
      field.each_member([&](const std::string& name, const Field& item) {
        read(item, value.emplace_hint(value.end(), name, typename T::mapped_type())->second);
      });
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
    } else if constexpr (std::same_as<T, Key>) {
      value = Key(field.text());
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
  // Reads a column with one value for each rank. There may be 10,000 ranks, so it builds no path for each value.
  static void read_column(const Field& field, RankValues& values);

  Field field_;
};

template <class T>
T read_as(const Field& field) {
  T value{};
  Reader::read(field, value);
  return value;
}

// Conversions between documents, text and bytes. The conversions are compiled in one file, because the library's own
// functions add seconds to each file that calls them.

/// Returns the document as text, in one line if `indent` is -1. Invalid UTF-8 is replaced so that the text can be
/// parsed.
std::string text_of_document(const nlohmann::json& document, int indent);
std::string text_of_document(const nlohmann::ordered_json& document, int indent);
std::string cbor_of_document(const nlohmann::ordered_json& document);
nlohmann::json document_of_cbor(const std::string& bytes);
/// Parses `text`. The result is "discarded" if the text is not JSON, or has more than 64 levels.
nlohmann::json document_of_text(std::string_view text);

/// Returns a value as JSON text.
template <class T>
std::string json_text(const T& value, int indent) {
  return text_of_document(Writer::written(value), indent);
}

/// Convert a value to bytes and back. `from` names the sender, for error messages.
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

/// Returns the values of all ranks in rank order. All ranks get the result. Collective.
template <class T>
std::vector<T> gather(Group& group, const T& mine) {
  return unpacked_by_rank<T>(group.gather(packed(mine)));
}

/// Returns the values of all ranks to the first rank; the other ranks get an empty vector. Collective.
template <class T>
std::vector<T> gather_to_first(Group& group, const T& mine) {
  const auto messages = group.gather_to_first(packed(mine));
  return group.rank() == 0 ? unpacked_by_rank<T>(messages) : std::vector<T>{};
}

/// Returns the value of `root` on all ranks. `mine` is ignored on the other ranks. Collective.
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
