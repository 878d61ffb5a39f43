#include "launch/verbs.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/files.hpp"
#include "base/flags.hpp"
#include "base/nearest_word.hpp"
#include "base/text.hpp"
#include "certify/certificate.hpp"
#include "launch/accept.hpp"
#include "launch/demo.hpp"
#include "launch/discover.hpp"
#include "launch/job.hpp"
#include "launch/options.hpp"
#include "launch/report_verbs.hpp"
#include "launch/top.hpp"
#include "launch/tune.hpp"
#include "report/baseline.hpp"
#include "report/claim.hpp"
#include "report/compare.hpp"
#include "report/ledger.hpp"
#include "report/regress.hpp"
#include "report/rehearse.hpp"

namespace shakedown {
namespace {

const std::vector<Verb>& verbs() {
  static const std::string stored = "[--results=F | --verdict=F] [flags]";
  static const std::vector<Verb> rows{
      {"accept", "[flags]", "measure this machine, or all hosts of the job, and judge", Verb::flags,
       [](const Call& call) { return accept(call.words, call.channel); }},
      {"measure", "[flags]", "measure without judging; prints the folder of the results", Verb::flags,
       [](const Call& call) { return measure(call.words); }},
      {"report", stored, "judge stored results, or show a stored verdict", Verb::arguments,
       [](const Call& call) { return report(call.arguments, call.channel); }},
      {"nodes", stored, "print ISOLATE, RESET or MONITOR for each node as JSON; exit 1 if one is bad", Verb::arguments,
       [](const Call& call) { return nodes(call.arguments); }},
      {"fleet", "--results=DIR[,DIR...] [flags]",
       "judge the newest run of each node, and compare the GPUs of all nodes with each other", Verb::arguments,
       [](const Call& call) { return fleet(call.arguments); }},
      {"regress", "--results=F [--baseline=F | --store=DIR] [flags]",
       "compare with a baseline or with earlier runs; exit 1 if anything is worse", Verb::arguments,
       [](const Call& call) { return regress(call.arguments); }},
      {"archive", "--results=DIR [--out=FILE]", "pack a run with its logs, without secrets", Verb::arguments,
       [](const Call& call) { return archive(call.arguments); }},
      {"certify", "--results=DIR --key=FILE [--site=F] [--out=FILE]", "sign a run with its rules and its verdict",
       Verb::arguments, [](const Call& call) { return certify(call.arguments, SHAKEDOWN_VERSION); }},
      {"verify", "FILE --signers=FILE [--site=F]",
       "check a certificate, and judge its results again; exit 1 if it is refused", Verb::arguments,
       [](const Call& call) { return verify(call.arguments, SHAKEDOWN_VERSION); }, 1},
      {"baseline create", "--results=F,F --out=DIR [flags]", "combine results of good machines", Verb::arguments,
       [](const Call& call) { return baseline("create", call.arguments); }},
      {"baseline merge", "--baseline=F,F --out=DIR [flags]", "combine several baselines", Verb::arguments,
       [](const Call& call) { return baseline("merge", call.arguments); }},
      {"baseline show", "--baseline=F [flags]", "print a baseline", Verb::arguments,
       [](const Call& call) { return baseline("show", call.arguments); }},
      {"compare", "A B [flags]", "print two runs, or archives of runs, side by side", Verb::arguments,
       [](const Call& call) { return compare(call.arguments); }, 2},
      {"history", "[NODE|GPU|METRIC] --ledger=DIR [flags]",
       "print the state of each node, or the history of one node, GPU (serial number) or metric", Verb::arguments,
       [](const Call& call) { return history(call.arguments); }, 1},
      {"retest", "NODE --ledger=DIR",
       "print Slurm commands that repeat what failed on a node, or that return the node to service", Verb::arguments,
       [](const Call& call) { return retest(call.arguments); }, 1},
      {"ledger add", "--event=E --node=N [--reason=TEXT] | --results=F",
       "add to the ledger: what was done to a node, or a stored run", Verb::arguments,
       [](const Call& call) { return add_to_ledger(call.arguments); }},
      {"claim", "--results=DIR [--ledger=DIR] [--site=F] [--price=N]",
       "print a claim about a failed run: GPUs, figures, hours and money", Verb::arguments,
       [](const Call& call) { return claim(call.arguments); }},
      {"rehearse", "--hosts=N | --site=F [flags]",
       "simulate a cluster of this size with faults: how surely an acceptance finds each", Verb::arguments,
       [](const Call& call) { return rehearse(call.arguments, shipped_profiles() / "rehearsal/noise"); }},
      {"demo", "[--fault=slow-hbm] [flags]", "show a verdict, its page and its commands without hardware",
       Verb::arguments, [](const Call& call) { return demo(call.arguments); }},
      {"inventory", "[summary|gpu|nvlink|ib|cpu|software|settings|all] [--json]",
       "print the hardware and software of this host", Verb::words,
       [](const Call& call) { return inventory(call.words); }},
      {"top", "[--hosts=LIST] [flags]", "show what GPUs, ports, processes and NCCL do, each second; q ends it",
       Verb::flags, [](const Call& call) { return top(call.words); }},
      {"tune", "[flags]", "compare settings of NCCL with its defaults, and price those that are set; writes nccl.conf",
       Verb::flags, [](const Call& call) { return tune(call.words); }},
      {"discover", "", "print the identity of this host as one line of JSON", Verb::words,
       [](const Call& call) { return discover(call.words); }},
      {"launch", "PROGRAM [ARGS]", "run a program on all ranks", Verb::words,
       [](const Call& call) { return launch(call.words); }},
  };
  return rows;
}

std::string overview() {
  std::string text = "usage: shakedown VERB [flags]\n\nverbs:\n";
  for (const Verb& verb : verbs())
    text += "  " + verb.name + std::string(17 - verb.name.size(), ' ') + verb.help + "\n";
  return text +
         "\nshakedown VERB --help, or help VERB, lists the flags of a verb; --version prints the version.\n"
         "exit codes: 0 pass, 1 fail, 2 usage or unreadable input, 3 inconclusive, incomplete or no reference\n";
}

std::string help(const Verb& verb) {
  return "usage: shakedown " + verb.name + " " + verb.usage + "\n\n" + verb.help + "\n" +
         flags_help(all_flags(), verb.taker());
}

}  // namespace

std::string Verb::taker() const {
  std::string taker = name;
  std::replace(taker.begin(), taker.end(), ' ', '_');
  return taker;
}

std::ptrdiff_t Verb::size() const { return 1 + std::count(name.begin(), name.end(), ' '); }

const Verb* verb_of(const Words& words) {
  for (const Verb& verb : verbs()) {
    if (std::ssize(words) >= verb.size() &&
        verb.name == joined(Words(words.begin(), words.begin() + verb.size()), " ")) {
      return &verb;
    }
  }
  return nullptr;
}

void refuse_verb(const Words& words) {
  const std::string& verb = words.front();
  if (verb == "roll") throw InputError("roll is now called discover");
  if (verb.rfind("--", 0) == 0)
    throw InputError("a verb is missing before \"" + verb + "\"" + did_you_mean(verb, {"--help", "--version"}) +
                     "; see --help");
  if (verb == "ledger") throw InputError("ledger: write ledger add; see ledger --help");
  Words known{"baseline", "ledger", "help", "version"}, actions;
  for (const Verb& row : verbs())
    (row.size() == 1 ? known : actions).push_back(row.name.substr(row.name.find(' ') + 1));
  if (verb != "baseline") {
    throw InputError("unknown verb \"" + verb + "\"" + did_you_mean(verb, known) + "; see --help");
  }
  const std::string action = words.size() > 1 ? words[1] : "";
  if (action.empty()) throw InputError("baseline: an action is missing; write baseline create, merge or show");
  throw InputError("unknown action \"" + action + "\"" + did_you_mean(action, actions) +
                   "; write baseline create, merge or show");
}

int show_help(Words words) {
  std::erase_if(words, [](const auto& word) { return word.starts_with('-') || word == "help"; });
  const Verb* const asked = verb_of(words);
  std::string text = words.empty() ? overview() : asked != nullptr ? help(*asked) : "";
  for (const Verb& verb : verbs()) {
    if (words.size() == 1 && verb.name.starts_with(words.front() + " "))
      text += (text.empty() ? "" : "\n") + help(verb);
  }
  if (text.empty()) refuse_verb(words);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace shakedown
