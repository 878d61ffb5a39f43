// Makes a certificate of a run.
#include <cstdio>
#include <set>

#include "base/archive.hpp"
#include "base/run_lock.hpp"
#include "base/temporary_folder.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "certify/certificate.hpp"
#include "certify/signature.hpp"
#include "certify/tarball.hpp"
#include "report/verdict_json.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

/// The working folder in which the certificate is made, with the hash of each file.
struct Draft {
  std::vector<std::string> names;
  std::string sums;

  void add(const std::string& name, const std::string& text) {
    if (one_line(name) != name) throw InputError(one_line(name) + ": its name has a control character; rename it");
    fs::create_directories(fs::absolute(name).parent_path());
    replace_file(name, text);
    sums += line_of_sums(text, name);
    names.push_back(name);
  }
};

/// Returns the folder of the run to certify. Errors: InputError if it is not the folder of one complete run.
fs::path run_of(const Arguments& arguments) {
  if (arguments.results.size() != 1) throw InputError("certify needs --results=DIR, the folder of one run; see --help");
  if (arguments.key.empty()) throw InputError("certify needs --key=FILE, a key of ssh-keygen; see --help");
  const auto& named = arguments.results.front();
  if (!is_folder(named)) throw InputError(named.string() + ": is not a folder; name the folder of a run");
  const TimedCall call("stat", named);
  const auto folder = fs::canonical(named);
  if (path_exists(folder / soak_file)) {
    throw InputError(named.string() + ": is a soak; certify takes one run, such as one of its rounds");
  }
  if (const auto why = unfinished(folder)) throw InputError(*why + "; measure again");
  return folder;
}

/// Copies what the judge reads from the folder of a run.
void add_results(const fs::path& folder, Draft& draft) {
  each_file_without_secrets(folder, [&](const fs::path& name, const std::string& text, std::time_t) {
    const bool is_result = name.extension() == ".json" && name.filename() != "verdict.json";
    const bool is_launch = name.filename() == "lost" && *name.begin() == scaling_folder;
    if (is_result || is_launch) draft.add(fs::path(certificate::results) / name, text);
  });
}

/// Copies the site file and all profiles, with the parts that they include: verify compares them all.
void add_references(const Arguments& arguments, Draft& draft) {
  const auto references = read_references(arguments);
  std::set<fs::path> files;
  for (const Profile& profile : load_profiles(arguments.thresholds)) {
    files.insert(profile.file);
    files.insert(profile.parts.begin(), profile.parts.end());
  }
  for (const auto& file : files) draft.add(fs::path(certificate::thresholds) / file.filename(), read_file(file));
  if (references.site) draft.add(certificate::site, read_file(references.site->file));
}

}  // namespace

Judged certificate::judge_here(const fs::path& own) {
  Arguments arguments;
  arguments.results = {results};
  arguments.thresholds = own.empty() ? thresholds : own;
  if (path_exists(site)) arguments.site = site;
  arguments.judge.allow_faults = true;  // refused below, in the words of a certificate
  Judged judged = judge(arguments);
  refuse_virtual(judged.measured->files, "a certificate");
  for (const Results& file : judged.measured->files) {
    if (file.context.fault)
      throw InputError(file.file.filename().string() + ": measured with an injected fault (" + *file.context.fault +
                       "), so no certificate has it; measure without SHAKEDOWN_FAULT");
  }
  return judged;
}

int certify(const Arguments& arguments, const std::string& version) {
  const auto folder = run_of(arguments);
  const auto run = folder.filename().string();
  const auto named = arguments.out.value_or("certificate-" + run + ".tar");
  Tarball tar(fs::absolute(named));
  Arguments absolute = arguments;
  absolute.thresholds = fs::absolute(arguments.thresholds);
  if (arguments.site) absolute.site = fs::absolute(*arguments.site);
  const auto key = fs::absolute(arguments.key);
  const TemporaryFolder working;
  fs::current_path(working.path());
  Draft draft;
  draft.add(certificate::about, json_text(AboutCertificate{run, version}, 2) + "\n");
  add_results(folder, draft);
  add_references(absolute, draft);
  const Judged judged = certificate::judge_here();
  draft.add(certificate::verdict, verdict_json(judged.verdict));
  replace_file(certificate::sums, draft.sums);
  sign(certificate::sums, key);
  draft.names.insert(draft.names.begin(), {certificate::sums, certificate::signature});
  const auto now = std::time(nullptr);
  for (const auto& name : draft.names) tar.add(run + "/" + name, read_file(name), now);
  tar.finish();
  std::printf("%s\n%s\n", named.c_str(), verdict_line(judged.verdict).c_str());
  return 0;
}

}  // namespace shakedown
