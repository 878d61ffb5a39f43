// Verifies a certificate of a run.
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <set>

#include "base/archive.hpp"
#include "base/sha256.hpp"
#include "base/temporary_folder.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "certify/certificate.hpp"
#include "certify/signature.hpp"
#include "certify/tarball.hpp"
#include "report/verdict_json.hpp"
#include "report/words.hpp"
#include "thresholds/results/json_field.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t max_archive_bytes = 8ULL << 30;

/// Returns the hashes in SHA256SUMS, by the name of the file.
std::map<std::string, std::string> hashes_in(std::string_view sums) {
  constexpr std::size_t digits = 64;
  std::map<std::string, std::string> hashes;
  for (const auto& line : split(std::string(sums), '\n')) {
    if (line.size() < digits + 3) throw Refused(std::string(certificate::sums) + ": a line has no hash and name");
    hashes[line.substr(digits + 2)] = line.substr(0, digits);
  }
  return hashes;
}

struct Unpacked {
  std::string signer;
  std::size_t files = 0;
};

/// Writes the members into a folder, which becomes the working folder, after it has checked signature and hashes. The
/// bytes of the archive are in memory only meanwhile, because those of 100,000 GPUs are 4 GB.
Unpacked unpack(const fs::path& archive, const fs::path& signers, const fs::path& folder) {
  const std::string bytes = read_file(archive);
  fs::current_path(folder);
  const auto all = members_of_tarball(bytes);
  if (all.size() < 2 || all[0].name != certificate::sums || all[1].name != certificate::signature) {
    throw Refused("does not begin with SHA256SUMS and its signature, so it is not a certificate of shakedown certify");
  }
  replace_file(certificate::sums, all[0].text);
  replace_file(certificate::signature, all[1].text);
  auto signer = signer_of(certificate::sums, certificate::signature, signers);
  auto hashes = hashes_in(all[0].text);
  for (std::size_t i = 2; i < all.size(); ++i) {
    const auto& [name, text] = all[i];
    const auto listed = hashes.extract(name);
    if (!listed) throw Refused(name + ": was added: the signed SHA256SUMS does not list it");
    if (listed.mapped() != sha256(text)) throw Refused(name + ": was changed: its hash is not the one that was signed");
    fs::create_directories(fs::absolute(name).parent_path());
    replace_file(name, text);
  }
  if (!hashes.empty()) throw Refused(hashes.begin()->first + ": was removed: the signed SHA256SUMS lists it");
  return {std::move(signer), all.size()};
}

/// Throws Refused if the stored verdict differs from the one of this machine, and names the first line that differs.
void compare(const std::string& stored, const Verdict& again, const std::string& versions) {
  const auto text = verdict_json(again);
  if (stored == text) return;
  const auto theirs = split(stored, '\n'), ours = split(text, '\n');
  std::size_t line = 0;
  while (line < theirs.size() && line < ours.size() && theirs[line] == ours[line]) ++line;
  const auto shown = [&](const std::vector<std::string>& lines) {
    const auto at = line < lines.size() ? lines[line].find_first_not_of(' ') : std::string::npos;
    return at == std::string::npos ? std::string("nothing") : shortened(one_line(lines[line].substr(at)), 80);
  };
  throw Refused(fmt::format("verdict.json: line {} says {}; these results and rules give {} ({})", line + 1,
                            shown(theirs), shown(ours), versions));
}

/// Returns the file of a rule: "thresholds/h200-sxm.yaml" of "thresholds/h200-sxm.yaml:12".
std::string file_of(const std::string& rule_at) { return rule_at.substr(0, rule_at.rfind(':')); }

/// Returns the limits of the rules, with the status of their findings, by benchmark and metric.
std::map<std::string, std::set<std::string>> limits_in(const Verdict& verdict) {
  std::map<std::string, std::set<std::string>> limits;
  for (const Finding& f : verdict.findings) {
    if (f.judgement != Judgement::rule || f.rule_at.empty()) continue;
    limits[joined_words(f.key, f.metric)].insert(
        (f.limit ? fmt::format("{} {:g}, ", name(f.limit->kind), f.limit->value) : "") + status_text(f));
  }
  return limits;
}

/// Returns the limits that differ from those of this machine: "gemm/... tflops: min 600, pass; here min 715, fail".
std::vector<std::string> differences(const Verdict& theirs, const Verdict& ours) {
  auto here = limits_in(ours);
  std::vector<std::string> lines;
  const auto text = [](const auto& limits) { return limits.empty() ? "no rule" : joined(limits, " and "); };
  for (const auto& [figure, limits] : limits_in(theirs)) {
    const auto own = here.extract(figure);
    const auto other = own ? own.mapped() : std::set<std::string>{};
    if (limits != other) lines.push_back(figure + ": " + text(limits) + "; here " + text(other));
  }
  for (const auto& [figure, limits] : here) lines.push_back(figure + ": no rule; here " + text(limits));
  return lines;
}

/// Returns the files of rules that this machine and the certificate do not have alike. Every file counts, because a
/// part without rules, or a profile of other GPUs, can decide a verdict although no finding names it.
std::set<std::string> other_files(const fs::path& own) {
  const auto folder = is_folder(own) ? own : own.parent_path();
  std::set<std::string> all, files;
  for (const auto& place : {fs::path(certificate::thresholds), folder}) {
    const auto names = names_in(place);
    if (!names) throw CannotRead(place.string() + ": cannot be listed; try again");
    all.insert(names->begin(), names->end());
  }
  for (const auto& name : all) {
    if (fs::path(name).extension() != ".yaml") continue;
    const auto theirs = fs::path(certificate::thresholds) / name, ours = folder / name;
    const bool is_alike = path_exists(theirs) && path_exists(ours) && read_file(theirs) == read_file(ours);
    if (!is_alike) files.insert(theirs);
  }
  return files;
}

/// Returns the rules of the certificate that are not those of this machine. Errors: Refused if the rules of this
/// machine give another state.
std::vector<std::string> changed_rules(const Verdict& verdict, const fs::path& own) {
  const auto files = other_files(own);
  if (files.empty()) return {};
  const Judged here = certificate::judge_here(own);
  auto lines = differences(verdict, here.verdict);
  const auto others = files.size() - 1;
  const auto which = *files.begin() + (others == 0 ? "" : " and " + plural(others, "other file"));
  if (here.verdict.state != verdict.state) {
    throw Refused(which + ": not as on this machine, whose rules give \"" + verdict_line(here.verdict) +
                  "\" instead of \"" + verdict_line(verdict) + "\": " + (lines.empty() ? "" : lines.front()));
  }
  lines.insert(
      lines.begin(),
      fmt::format("{}: differs from the file of this machine; limits that differ: {}; the verdict is {} by both", which,
                  lines.size(), name(verdict.state)));
  return lines;
}

/// Prints how many findings each file of rules and each other judgement made, and the sources of the limits.
void print_rules(const Verdict& verdict, bool all) {
  std::map<std::string, std::size_t> rules, sources;
  for (const Finding& finding : verdict.findings) {
    const bool is_built_in = finding.judgement == Judgement::rule;
    ++rules[!finding.rule_at.empty() ? file_of(finding.rule_at)
            : is_built_in            ? "rules of the program"
                                     : std::string(name(finding.judgement))];
    if (!finding.source.empty()) ++sources[finding.source];
  }
  std::vector<std::string> words;
  for (const auto& [by, count] : rules) words.push_back(std::to_string(count) + " by " + by);
  std::printf("findings: %s\n", joined(words).c_str());
  std::printf("sources: %zu%s\n", sources.size(), all ? ":" : ", which --all lists");
  if (!all) return;
  for (const auto& [source, count] : sources) std::printf("  %zu x %s\n", count, printable(source).c_str());
}

/// Throws Refused if --site names a file that is not that of the certificate.
void compare_site(const std::optional<fs::path>& own) {
  if (!own) return;
  if (!path_exists(certificate::site)) throw Refused("site.yaml: is not in the certificate, and --site names one");
  if (read_file(*own) != read_file(certificate::site))
    throw Refused("site.yaml: is not the same file as " + own->string());
}

void verify_here(const Unpacked& unpacked, const Arguments& arguments, const std::string& version) {
  for (const char* const needed : {certificate::about, certificate::verdict, certificate::results}) {
    if (!path_exists(needed)) throw Refused(std::string(needed) + ": is not in the certificate");
  }
  AboutCertificate about;
  Judged judged;
  const auto why = input_error_of([&] {
    const fs::path place = certificate::about;
    const auto document = read_json(place);
    about = read_as<AboutCertificate>(Field(place, "", document));
    compare_site(arguments.site);
    judged = certificate::judge_here();
  });
  if (!why.empty()) throw Refused(why);
  const auto versions = "certified by " + about.shakedown + ", verified by " + version;
  compare(read_file(certificate::verdict), judged.verdict, versions);
  const auto changed = changed_rules(judged.verdict, arguments.thresholds);
  std::printf("signed by: %s\n", unpacked.signer.c_str());
  std::printf("run %s: %zu files, all as signed; %s\n", one_line(about.run).c_str(), unpacked.files,
              one_line(versions).c_str());
  std::printf("verdict: the same, byte for byte, judged again from %s\n",
              plural(judged.measured->files.size(), "result file").c_str());
  print_rules(judged.verdict, arguments.all);
  if (path_exists(certificate::site)) {
    std::printf("site: %s\n",
                arguments.site ? "the same file as here" : "that of the certificate; compare with --site=FILE");
  }
  std::printf("changed rules: %s\n", changed.empty() ? "none" : one_line(changed.front()).c_str());
  for (std::size_t i = 1; i < changed.size(); ++i) std::printf("  %s\n", one_line(changed[i]).c_str());
  std::puts(verdict_line(judged.verdict).c_str());
}

void refuse_huge(const fs::path& archive) {
  const TimedCall call("stat", archive);
  std::error_code none;  // ignored, because read_file reports why a file cannot be read
  if (const auto size = fs::file_size(archive, none); !none && size > max_archive_bytes) {
    throw Refused("is larger than 8 GiB");
  }
}

}  // namespace

int verify(const Arguments& arguments, const std::string& version) {
  if (arguments.operands.size() != 1) throw InputError("verify needs a certificate: shakedown verify FILE; see --help");
  if (!arguments.signers)
    throw InputError("verify needs --signers=FILE, the allowed signers of ssh-keygen; see --help");
  const auto& archive = arguments.operands.front();
  Arguments absolute = arguments;
  absolute.thresholds = fs::absolute(arguments.thresholds);
  absolute.signers = fs::absolute(*arguments.signers);
  if (arguments.site) absolute.site = fs::absolute(*arguments.site);
  for (const auto& file : {absolute.signers, absolute.site}) {
    if (file) read_file(*file);  // unreadable input is not the fault of the certificate
  }
  try {
    refuse_huge(archive);
    const TemporaryFolder working;
    verify_here(unpack(archive, *absolute.signers, working.path()), absolute, version);
    return 0;
  } catch (const Refused& refused) {
    std::printf("REFUSED %s: %s\n", archive.c_str(), one_line(refused.what()).c_str());
    return 1;
  }
}

}  // namespace shakedown
