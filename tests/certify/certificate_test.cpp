// Tests certificates: what verify says of a good one, and 43 ways in which one can be changed, each refused by name.
#include "certify/certificate.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/temporary_folder.hpp"
#include "base/text.hpp"
#include "certify/signature.hpp"
#include "certify/tarball.hpp"

namespace shakedown::certificate_test {
namespace {

namespace fs = std::filesystem;

const fs::path source = SHAKEDOWN_SOURCE_DIR;
const fs::path run = source / "ci/baselines/h200-sxm/4ranks/1", other_run = source / "ci/baselines/h200-sxm/4ranks/2";
const std::string site =
    "schema: 2\nsite: lab\ninclude: h200-sxm\nrules:\n  - {benchmark: \"allreduce/dtype:f32/bytes:8589934592\", "
    "metric: busbw_gb_per_s, every: run, min: 300, ranks: 4, hosts: 1, nvls: off, source: the contract}\n";

struct Program {
  int code;
  std::string text;
  std::vector<std::string> lines() const { return split(text, '\n'); }
};
Program program(std::vector<std::string> words) {
  words.insert(words.begin(), SHAKEDOWN_PROGRAM);
  const auto done = output_of(words, std::chrono::minutes(2));
  return {done.code, done.text};
}
void shell(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }
void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

/// Keys, allowed signers and a certificate, which all tests share.
struct Lab {
  TemporaryFolder folder;
  fs::path at = folder.path(), good = at / "good.tar";

  Lab() {
    for (const std::string key : {"alice", "mallory"}) {
      shell("ssh-keygen -q -t ed25519 -N '' -C " + key + " -f " + (at / key).string());
    }
    allow("signers", "");
    allow("expired", "valid-before=\"20200101\" ");
    allow("for_git", "namespaces=\"git\" ");
    write(at / "site.yaml", site);
    write(at / "other_site.yaml", site + "# another\n");
    fs::copy(source / "thresholds", at / "tight");
    auto rules = read_file(at / "tight/h200-sxm.yaml");
    const auto rule = rules.find("gemm/dtype:f32/m:8192/n:8192/k:8192");
    const auto limit = rules.find("reference: ", rule) + 11;
    write(at / "tight/h200-sxm.yaml", rules.replace(limit, rules.find(',', limit) - limit, "60"));
    made = certify(run, good);
  }
  void allow(const std::string& file, const std::string& options) const {
    write(at / file, "alice@example.com " + options + read_file(at / "alice.pub"));
  }
  Program certify(const fs::path& results, const fs::path& out, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"certify", "--results=" + results.string(), "--out=" + out.string(),
                               "--key=" + (at / "alice").string(), "--site=" + (at / "site.yaml").string()});
    return program(more);
  }
  Program verify(const fs::path& archive, const std::string& signers = "signers",
                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"verify", archive.string(), "--signers=" + (at / signers).string()};
    words.insert(words.end(), more.begin(), more.end());
    return program(words);
  }
  Program made{};
};
const Lab& lab() {
  static const Lab lab;
  return lab;
}

class Certificate : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CI") == nullptr && std::system("command -v ssh-keygen >/dev/null") != 0)
      GTEST_SKIP() << "ssh-keygen is missing; ci/setup --tests installs it";
  }
};

/// A certificate whose files and bytes a test changes.
class Forgery {
 public:
  Forgery() {
    const auto bytes = read_file(lab().good);
    for (const auto& [name, text] : members_of_tarball(bytes)) files.emplace_back("1/" + name, std::string(text));
  }
  std::string& operator[](const std::string& name) {
    for (auto& [other, text] : files) {
      if (other == "1/" + name) return text;
    }
    throw std::out_of_range(name);
  }
  void replace(const std::string& name, const std::string& old, const std::string& now) {
    auto& text = (*this)[name];
    ASSERT_NE(text.find(old), std::string::npos) << name << " has no " << old;
    text.replace(text.find(old), old.size(), now);
  }
  void remove(const std::string& name) {
    std::erase_if(files, [&](const auto& file) { return file.first == "1/" + name; });
  }
  /// Writes the hashes of the files as they are now.
  void hash() {
    auto& sums = (*this)["SHA256SUMS"];
    sums.clear();
    for (std::size_t i = 2; i < files.size(); ++i) sums += line_of_sums(files[i].second, files[i].first.substr(2));
  }
  /// Hashes the files, and signs the hashes.
  void sign(const std::string& key = "alice", const std::string& name_space = "shakedown") {
    hash();
    const TemporaryFolder folder;
    write(folder.path() / "sums", (*this)["SHA256SUMS"]);
    shell("ssh-keygen -q -Y sign -f " + (lab().at / key).string() + " -n " + name_space + " " +
          (folder.path() / "sums").string() + " 2>/dev/null");
    (*this)["SHA256SUMS.sig"] = read_file(folder.path() / "sums.sig");
  }
  /// Changes a field of the header of a file, and corrects its checksum.
  void header(const std::string& name, std::size_t at, const std::string& value) {
    changes.push_back([=](std::string& bytes) {
      const auto begin = bytes.find("1/" + name + std::string(1, '\0'));
      bytes.replace(begin + at, value.size(), value).replace(begin + 148, 8, "        ");
      unsigned sum = 0;
      for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(bytes[begin + i]);
      std::array<char, 8> text{};
      std::snprintf(text.data(), text.size(), "%06o", sum);
      bytes.replace(begin + 148, 7, std::string(text.data(), 7));
    });
  }
  void write_to(const fs::path& file) const {
    Tarball tar(file);
    for (const auto& [name, text] : files) tar.add(name, text, 0);
    tar.finish();
    auto bytes = read_file(file);
    for (const auto& change : changes) change(bytes);
    write(file, bytes);
  }

  std::vector<std::pair<std::string, std::string>> files;
  std::vector<std::function<void(std::string&)>> changes;
  std::string signers = "signers";
  std::vector<std::string> flags;
};

struct Tampering {
  const char* what;
  const char* refused;  // what the line of verify has after the name of the archive
  std::function<void(Forgery&)> change;
};

const std::string gemm = "results/gemm.json", facts = "results/preflight.json";

void raise_value(Forgery& forged) { forged.replace(gemm, "\"tflops\":", "\"tflops\":1"); }

std::string text_of_run(const fs::path& folder, const std::string& name) { return read_file(folder / name); }

const std::vector<Tampering> files_table{
    {"a value is changed", "results/gemm.json: was changed: its hash", raise_value},
    {"a row is removed", "results/gemm.json: was changed",
     [](Forgery& f) { f.replace(gemm, "\"benchmarks\": [", "\"benchmarks\": [], \"old\": ["); }},
    {"a host is renamed", "results/gemm.json: was changed",
     [](Forgery& f) { f.replace(gemm, "\"host\": \"", "\"host\": \"new"); }},
    {"a fact is changed", "results/preflight.json: was changed",
     [](Forgery& f) { f.replace(facts, "\"driver\": \"", "\"driver\": \"9"); }},
    {"the version is changed", "certificate.json: was changed",
     [](Forgery& f) { f.replace("certificate.json", "\"shakedown\": \"", "\"shakedown\": \"9."); }},
    {"the verdict is changed", "verdict.json: was changed",
     [](Forgery& f) { f.replace("verdict.json", "\"verdict\": \"", "\"verdict\": \"not "); }},
    {"a rule is loosened", "thresholds/h200-sxm.yaml: was changed",
     [](Forgery& f) { f.replace("thresholds/h200-sxm.yaml", "margin: 0.", "margin: 0.9"); }},
    {"the site is replaced", "site.yaml: was changed", [](Forgery& f) { f.replace("site.yaml", "300", "100"); }},
    {"a family of another run is mixed in", "results/hbm.json: was changed",
     [](Forgery& f) { f["results/hbm.json"] = text_of_run(other_run, "hbm.json"); }},
    {"a file is added", "results/more.json: was added: the signed SHA256SUMS does not list it",
     [](Forgery& f) { f.files.emplace_back("1/results/more.json", f[gemm]); }},
    {"a file is removed", "results/gemm.json: was removed: the signed SHA256SUMS lists it",
     [](Forgery& f) { f.remove(gemm); }},
    {"the site is removed", "site.yaml: was removed", [](Forgery& f) { f.remove("site.yaml"); }},
};

const std::vector<Tampering> signature_table{
    {"the manifest is edited",
     "SHA256SUMS.sig: is not a signature of SHA256SUMS: ", [](Forgery& f) { raise_value(f), f.hash(); }},
    {"an unlisted key signs", "which signers does not allow: No principal matched",
     [](Forgery& f) { raise_value(f), f.sign("mallory"); }},
    {"the signer has expired", "expired:1: key has expired", [](Forgery& f) { f.signers = "expired"; }},
    {"the signer may sign for git only", "key is not permitted for use in signature namespace \"shakedown\"",
     [](Forgery& f) { f.signers = "for_git"; }},
    {"the signature is for another namespace", "namespace does not match", [](Forgery& f) { f.sign("alice", "file"); }},
    {"the signature is not one",
     "SHA256SUMS.sig: is not a signature of SHA256SUMS: ", [](Forgery& f) { f["SHA256SUMS.sig"] = "trust me\n"; }},
    {"the signature is removed", "does not begin with SHA256SUMS and its signature",
     [](Forgery& f) { f.remove("SHA256SUMS.sig"); }},
    {"the manifest has a line without a hash", "SHA256SUMS.sig: is not a signature",
     [](Forgery& f) { f["SHA256SUMS"] += "all good\n"; }},
};

const std::vector<Tampering> archive_table{
    {"the archive is truncated in a file", "bytes, but the archive ends earlier",
     [](Forgery& f) { f.changes.emplace_back([](std::string& b) { b.resize(b.find("\"benchmarks\"")); }); }},
    {"the end of the archive is missing", "the archive is truncated: its end is missing",
     [](Forgery& f) { f.changes.emplace_back([](std::string& b) { b.resize(b.size() - 1024); }); }},
    {"bytes follow the end", "there are 4096 bytes after the end of the archive",
     [](Forgery& f) { f.changes.emplace_back([](std::string& b) { b += std::string(3584, 'x'); }); }},
    {"a name leads out of the folder", "1/../../evil: is not a file below the folder of the archive",
     [](Forgery& f) { f.files.emplace_back("1/../../evil", "x"); }},
    {"a name is absolute", "/etc/cron.d/evil: is not a file below the folder",
     [](Forgery& f) { f.files.emplace_back("/etc/cron.d/evil", "x"); }},
    {"there is a second folder", "2/gemm.json: is outside the folder 1/ of the archive",
     [](Forgery& f) { f.files.emplace_back("2/gemm.json", "x"); }},
    {"a file is a symbolic link", "1/results/gemm.json: is a link, a folder or a device",
     [](Forgery& f) { f.header(gemm, 156, "2"); }},
    {"a file is huge", "results/gemm.json: has 8589934591 bytes, but the archive ends earlier",
     [](Forgery& f) { f.header(gemm, 124, "77777777777"); }},
    {"a size is binary", "1/results/gemm.json: its size is not readable",
     [](Forgery& f) { f.header(gemm, 124, "\x80\x7f"); }},
    {"a header is damaged", "the archive is damaged here",
     [](Forgery& f) { f.changes.emplace_back([](std::string& b) { b[0] = 'x'; }); }},
    {"a file occurs twice", "results/gemm.json: occurs twice in the archive",
     [](Forgery& f) { f.files.emplace_back("1/" + gemm, f[gemm]); }},
};

/// These are signed by a key that is allowed, so only the second judgement finds them.
const std::vector<Tampering> judgement_table{
    {"a signed verdict is changed", "verdict.json: line 3 says \"verdict\": \"fail\"",
     [](Forgery& f) { f.replace("verdict.json", "\"verdict\": \"pass\"", "\"verdict\": \"fail\""), f.sign(); }},
    {"a signed value is changed without its verdict", "verdict.json: line ",
     [](Forgery& f) { raise_value(f), f.sign(); }},
    {"the verdict of another version is signed", "(certified by 9.0, verified by 0.1.0)",
     [](Forgery& f) {
       f["certificate.json"] = "{\"run\": \"1\", \"shakedown\": \"9.0\"}";
       f.replace("verdict.json", "\"detail\": \"", "\"detail\": \"newly worded "), f.sign();
     }},
    {"a family of another run is signed", "verdict.json: line ",
     [](Forgery& f) { f["results/hbm.json"] = text_of_run(other_run, "hbm.json"), f.sign(); }},
    {"results that are not readable are signed", "results/gemm.json: ", [](Forgery& f) { f[gemm] = "{", f.sign(); }},
    {"a virtual run is signed",
     "results/allreduce.json: is of --backend=virtual, and a certificate takes results of real GPUs",
     [](Forgery& f) {
       for (auto& [name, text] : f.files) {
         if (const auto at = text.find("\"backend\": \"cuda\"");
             name.starts_with("1/results/") && at != std::string::npos)
           text.replace(at, 17, "\"backend\": \"virtual\"");
       }
       f.sign();
     }},
    {"a run with an injected fault is signed", "measured with an injected fault (slow)",
     [](Forgery& f) { f.replace(gemm, "\"fault\": null", "\"fault\": \"slow\""), f.sign(); }},
    {"the signed rules are looser than those here",
     "thresholds/h200-sxm.yaml: not as on this machine, whose rules give \"VERDICT: FAIL ",
     [](Forgery& f) { f.flags = {"--thresholds=" + (lab().at / "tight").string()}; }},
    {"the signed site is not ours", "site.yaml: is not the same file as ",
     [](Forgery& f) { f.flags = {"--site=" + (lab().at / "other_site.yaml").string()}; }},
    {"the signed site is missing", "site.yaml: is not in the certificate, and --site names one",
     [](Forgery& f) {
       f.remove("site.yaml"), f.sign();
       f.flags = {"--site=" + (lab().at / "site.yaml").string()};
     }},
    {"the signed verdict is missing", "verdict.json: is not in the certificate",
     [](Forgery& f) { f.remove("verdict.json"), f.sign(); }},
    {"the signed manifest has no hashes", "SHA256SUMS: a line has no hash and name",
     [](Forgery& f) {
       f.files.emplace_back("1/x", "x");
       f.files.resize(2), f["SHA256SUMS"] = "x\n";
       const TemporaryFolder folder;
       write(folder.path() / "sums", "x\n");
       sign(folder.path() / "sums", lab().at / "alice");
       f["SHA256SUMS.sig"] = read_file(folder.path() / "sums.sig");
     }},
};

void expect_refused(const std::vector<Tampering>& table) {
  ASSERT_EQ(lab().made.code, 0) << lab().made.text;
  for (const auto& [what, refused, change] : table) {
    SCOPED_TRACE(what);
    const TemporaryFolder folder;
    const auto file = folder.path() / "forged.tar";
    Forgery forged;
    change(forged);
    forged.write_to(file);
    const auto said = lab().verify(file, forged.signers, forged.flags);
    EXPECT_EQ(said.code, 1) << said.text;
    EXPECT_EQ(said.lines().size(), 1u) << said.text;
    EXPECT_TRUE(said.text.starts_with("REFUSED " + file.string() + ": ")) << said.text;
    EXPECT_NE(said.text.find(refused), std::string::npos) << said.text;
  }
}

TEST_F(Certificate, RefusesFilesThatWereChangedAfterTheSignature) { expect_refused(files_table); }
TEST_F(Certificate, RefusesSignaturesThatDoNotHoldHere) { expect_refused(signature_table); }
TEST_F(Certificate, RefusesArchivesThatCouldHarmOrHideSomething) { expect_refused(archive_table); }
TEST_F(Certificate, RefusesWhatAnAllowedSignerSignedButTheResultsDoNotSay) { expect_refused(judgement_table); }

TEST_F(Certificate, IsTheSameVerdictOnAnotherMachine) {
  EXPECT_EQ(lab().made.code, 0) << lab().made.text;
  EXPECT_TRUE(lab().made.text.starts_with(lab().good.string() + "\nVERDICT: ")) << lab().made.text;
  const auto said = lab().verify(lab().good, "signers", {"--site=" + (lab().at / "site.yaml").string(), "--all"});
  EXPECT_EQ(said.code, 0) << said.text;
  for (const std::string words :
       {"signed by: alice@example.com with ED25519 key SHA256:",
        "verdict: the same, byte for byte, judged again from 14", " by thresholds/h200-sxm.yaml", "1 by site.yaml",
        " x the contract\n", "site: the same file as here", "changed rules: none\n"}) {
    EXPECT_NE(said.text.find(words), std::string::npos) << words << " is not in:\n" << said.text;
  }
  EXPECT_EQ(said.lines().back(), lab().made.lines().back());
}

TEST_F(Certificate, OfTheReadmeIsWhatVerifySays) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "c.tar";
  ASSERT_EQ(program({"certify", "--results=" + run.string(), "--key=" + (lab().at / "alice").string(),
                     "--out=" + file.string()})
                .code,
            0);
  const auto said = lab().verify(file).lines();
  const auto readme = read_file(source / "README.md");
  const auto begin = readme.find("signed by: me with ED25519 key SHA256:");
  ASSERT_NE(begin, std::string::npos);
  auto shown = split(readme.substr(begin, readme.find("```", begin) - begin), '\n');
  shown.erase(shown.begin());  // the key
  EXPECT_GE(shown.size(), 4u);
  for (const auto& line : shown) {
    EXPECT_TRUE(line == "..." || std::find(said.begin(), said.end(), line) != said.end()) << line;
  }
}

TEST_F(Certificate, CanBeCheckedWithStandardTools) {
  const auto at = lab().at.string();
  shell("cd " + at +
        " && mkdir plain && tar -xf good.tar -C plain && cd plain/1 && sha256sum --quiet -c SHA256SUMS && "
        "ssh-keygen -q -Y verify -f ../../signers -I alice@example.com -n shakedown -s SHA256SUMS.sig <SHA256SUMS "
        ">/dev/null");
}

TEST_F(Certificate, OfARunThatFailsVerifiesTooAndLeavesNothingBehind) {
  const TemporaryFolder folder;
  const auto failing = folder.path() / "failing", rest = folder.path() / "tmp";
  fs::copy(run, failing);
  fs::create_directory(rest);
  fs::remove(failing / "hbm.json");
  write(failing / "log", "a log is not certified\n");
  setenv("TMPDIR", rest.c_str(), 1);
  const auto made = lab().certify(failing, folder.path() / "c.tar");
  EXPECT_EQ(made.code, 0) << made.text;
  EXPECT_TRUE(made.lines().back().starts_with("VERDICT: ")) << made.text;
  EXPECT_FALSE(made.lines().back().starts_with("VERDICT: PASS")) << made.text;
  const auto said = lab().verify(folder.path() / "c.tar");
  EXPECT_EQ(said.code, 0) << said.text;
  EXPECT_EQ(said.lines().back(), made.lines().back());
  EXPECT_NE(said.text.find("--site=FILE"), std::string::npos) << said.text;
  EXPECT_TRUE(fs::is_empty(rest));
  unsetenv("TMPDIR");
}

TEST_F(Certificate, NamesRulesThatDifferHereAndDoNotMatter) {
  const auto looser = lab().at / "looser";
  fs::copy(source / "thresholds", looser);
  auto rules = read_file(looser / "h200-sxm.yaml");
  const auto limit = rules.find("reference: ", rules.find("gemm/dtype:f32/m:8192/n:8192/k:8192")) + 11;
  write(looser / "h200-sxm.yaml", rules.replace(limit, rules.find(',', limit) - limit, "40"));
  const auto said = lab().verify(lab().good, "signers", {"--thresholds=" + looser.string()});
  EXPECT_EQ(said.code, 0) << said.text;
  EXPECT_NE(said.text.find("changed rules: thresholds/h200-sxm.yaml: differs from the file of this machine; limits "
                           "that differ: 1; the verdict is "),
            std::string::npos)
      << said.text;
}

// No finding names a part of other GPUs or a profile that is not there.
TEST_F(Certificate, NamesRulesThatTheSignerTookAway) {
  const TemporaryFolder folder;
  const auto made_with = [&](const fs::path& rules, const std::string& name) {
    const auto made = program({"certify", "--results=" + run.string(), "--key=" + (lab().at / "alice").string(),
                               "--out=" + (folder.path() / name).string(), "--thresholds=" + rules.string()});
    EXPECT_EQ(made.code, 0) << made.text;
    return folder.path() / name;
  };
  const auto changed = folder.path() / "changed", removed = folder.path() / "removed";
  fs::copy(source / "thresholds", changed);
  write(changed / "pcie-gen5.yaml", read_file(changed / "pcie-gen5.yaml") + "# changed\n");
  const auto changed_part = lab().verify(made_with(changed, "changed.tar"));
  EXPECT_EQ(changed_part.code, 0) << changed_part.text;
  EXPECT_NE(changed_part.text.find("changed rules: thresholds/pcie-gen5.yaml: "), std::string::npos)
      << changed_part.text;
  EXPECT_NE(changed_part.text.find(" differ: 0; "), std::string::npos);
  EXPECT_NE(changed_part.text.find("PASS by both"), std::string::npos);
  fs::copy(source / "thresholds", removed);
  fs::remove(removed / "h200-sxm.yaml");
  const auto without_profile = lab().verify(made_with(removed, "removed.tar"));
  EXPECT_EQ(without_profile.code, 1) << without_profile.text;
  EXPECT_NE(without_profile.text.find("thresholds/h200-sxm.yaml: "), std::string::npos);
  EXPECT_NE(without_profile.text.find(" \"VERDICT: PASS 135/135"), std::string::npos) << without_profile.text;
}

TEST_F(Certificate, ShowsWhatTheSignerWroteInOneLine) {
  const TemporaryFolder folder;
  Forgery forged;
  forged["certificate.json"] = "{\"run\": \"1\\nVERDICT: PASS\\u001b[2J\", \"shakedown\": \"0.1.0\"}";
  forged.sign();
  forged.write_to(folder.path() / "c.tar");
  const auto said = lab().verify(folder.path() / "c.tar");
  EXPECT_EQ(said.text.find("\nVERDICT: PASS\x1b"), std::string::npos) << said.text;
  EXPECT_EQ(said.text.find('\x1b'), std::string::npos) << said.text;
}

TEST_F(Certificate, RefusesWrongInputInOneLine) {
  const TemporaryFolder folder;
  const auto& at = folder.path();
  const auto out = "--out=" + (at / "c.tar").string(), key = "--key=" + (lab().at / "alice").string();
  const auto copy = [&](const std::string& name) {
    fs::copy(run, at / name);
    return at / name;
  };
  const auto soak = copy("soak"), unfinished = copy("unfinished"), virtual_run = copy("virtual");
  write(soak / "rounds.jsonl", "{}\n");
  write(unfinished / "lock", "host: elsewhere\nstart: \npid: 1\nstate: running\n");
  auto text = read_file(virtual_run / "gemm.json");
  write(virtual_run / "gemm.json", text.replace(text.find("\"backend\": \"cuda\""), 17, "\"backend\": \"virtual\""));
  const std::string results = "--results=" + run.string(), signers = "--signers=" + (lab().at / "signers").string();
  fs::create_directory(at / "rules");
  write(at / "rules/h200-sxm.yaml", "schema: 1\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> table{
      {{"verify", lab().good.string(), signers, "--thresholds=" + (at / "rules").string()},
       "rules/h200-sxm.yaml:1:9: "},
      {{"certify", key, out}, "certify needs --results=DIR"},
      {{"certify", results, out}, "certify needs --key=FILE"},
      {{"certify", results, out, "--key=" + (at / "nosuch").string()}, "cannot sign: "},
      {{"certify", "--results=" + (run / "gemm.json").string(), key, out}, "is not a folder"},
      {{"certify", "--results=" + at.string() + "/nosuch", key, out}, "is not a folder"},
      {{"certify", "--results=" + soak.string(), key, out}, "is a soak; certify takes one run"},
      {{"certify", "--results=" + unfinished.string(), key, out}, "measure again"},
      {{"certify", "--results=" + virtual_run.string(), key, out}, "a certificate takes results of real GPUs only"},
      {{"certify", results, key, "--out=" + lab().good.string()}, "exists; name another file"},
      {{"certify", results, key, out, "--site=" + (at / "nosuch").string()}, "nosuch"},
      {{"verify", signers}, "verify needs a certificate"},
      {{"verify", lab().good.string()}, "verify needs --signers=FILE"},
      {{"verify", lab().good.string(), "--signers=" + (at / "nosuch").string()}, "nosuch"},
      {{"verify", lab().good.string(), signers, "--site=" + (at / "nosuch").string()}, "nosuch"},
      {{"verify", (at / "nosuch.tar").string(), signers}, "nosuch.tar"},
      {{"verify", at.string(), signers}, "is a folder, not a file"},
  };
  for (const auto& [words, why] : table) {
    SCOPED_TRACE(joined(words, " "));
    const auto said = program(words);
    EXPECT_EQ(said.code, 2) << said.text;
    EXPECT_EQ(said.lines().size(), 1u) << said.text;
    EXPECT_NE(said.text.find(why), std::string::npos) << said.text;
    EXPECT_FALSE(fs::exists(at / "c.tar"));
  }
}

TEST_F(Certificate, RefusesAHugeFileWithoutReadingIt) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "huge.tar";
  write(file, "");
  fs::resize_file(file, 9ULL << 30);
  const auto said = lab().verify(file);
  EXPECT_EQ(said.code, 1);
  EXPECT_TRUE(said.text.starts_with("REFUSED " + file.string() + ": ") && said.text.ends_with(" 8 GiB\n"));
}

}  // namespace
}  // namespace shakedown::certificate_test
