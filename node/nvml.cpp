// Calls NVML. This file is long because each fact has a function of its own, and some have two for different driver
// versions. Each can be missing, denied or unsupported.
#include "node/nvml.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <fstream>
#include <type_traits>
#include <utility>

#include "node/nvml_library.hpp"

namespace shakedown {
namespace {

/// Converts NVML's "00000000:1B:00.0" to "0000:1b:00.0", as Linux writes it.
std::string pci_text(const abi::PciInfo& info) {
  const std::string address(info.bus_id, strnlen(info.bus_id, sizeof info.bus_id));
  std::string lower;
  for (const char c : address) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  // NVML writes the PCI domain with eight digits. Linux writes it with four, unless it needs more.
  const bool wide = lower.size() > 12 && lower.compare(0, 4, "0000") == 0;
  return wide ? lower.substr(4) : lower;
}

std::optional<std::string> process_name(unsigned pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/comm");
  std::string line;
  return std::getline(in, line) ? std::optional(line) : std::nullopt;
}

template <class To, class From>
Answer<To> convert(const Answer<From>& from, To (*function)(const From&)) {
  if (!from) return Answer<To>::unknown(from.why());
  return function(*from);
}

double watts(const unsigned& milliwatts) { return milliwatts / 1e3; }
double joules(const abi::Size& millijoules) { return static_cast<double>(millijoules) / 1e3; }

Answer<Modes> modes(const NvmlLibrary& library, const abi::GetPair& function, abi::Device device) {
  unsigned now = 0, pending = 0;
  auto why = library.call(function, device, &now, &pending);
  if (!why.empty()) return Answer<Modes>::unknown(std::move(why));
  return Modes{now != 0, pending != 0};
}

/// Returns two counters of bytes, of all links if they belong to NVLink.
Answer<Traffic> traffic(const NvmlLibrary& library, abi::Device device, unsigned sent, unsigned received) {
  std::array<abi::FieldValue, 2> values{};
  values[0].field = sent;
  values[1].field = received;
  for (auto& value : values) value.scope = abi::all_links;
  auto why = library.call(abi::field_values, device, static_cast<int>(values.size()), values.data());
  for (const auto& value : values) {
    if (why.empty()) why = NvmlLibrary::reason(value.status);
    if (why.empty() && value.type == abi::as_uint) why = "the counter has only 32 bits";
  }
  if (!why.empty()) return Answer<Traffic>::unknown(std::move(why));
  return Traffic{number_of<std::uint64_t>(values[0]), number_of<std::uint64_t>(values[1])};
}

}  // namespace

std::string nvml_library(const Environment& environment) {
  const auto named = environment("SHAKEDOWN_NVML");
  return named && !named->empty() ? *named : "libnvidia-ml.so.1";
}

// ---------------------------------------------------------------------------------------------------------------------
// Nvml

Nvml::Nvml(const std::string& library) {
  auto opened = open_driver_library(library);
  if (!opened.library) {
    problem_ = opened.problem;
    return;
  }
  auto loaded = std::make_shared<const NvmlLibrary>(std::move(opened.library));
  problem_ = loaded->call(abi::init);
  if (problem_.empty()) {
    library_ = std::move(loaded);
  } else {
    problem_ = library + ": " + problem_;
  }
}

Answer<std::string> Nvml::driver_version() const {
  if (!library_) return Answer<std::string>::unknown(problem_);
  return library_->text(abi::driver_version);
}

Answer<unsigned> Nvml::device_count() const {
  if (!library_) return Answer<unsigned>::unknown(problem_);
  return library_->get<unsigned>(abi::device_count);
}

std::vector<NvmlGpu> Nvml::gpus() const {
  std::vector<NvmlGpu> found;
  const auto count = device_count().value_or(0);
  for (unsigned i = 0; i < count; ++i) {
    const auto device = library_->get<abi::Device>(abi::handle_by_index, i);
    if (device) found.push_back(NvmlGpu(library_, *device));
  }
  return found;
}

Answer<NvmlGpu> Nvml::find(const std::optional<std::string>& uuid, const std::optional<std::string>& pci) const {
  if (!library_) return Answer<NvmlGpu>::unknown(problem_);
  std::string why = "neither the UUID nor the PCI address of the GPU is known";
  const auto attempt = [&](const abi::GetHandle& function,
                           const std::optional<std::string>& name) -> std::optional<NvmlGpu> {
    if (!name) return std::nullopt;
    const auto device = library_->get<abi::Device>(function, name->c_str());
    if (device) return NvmlGpu(library_, *device);
    why = *name + ": " + device.why();
    return std::nullopt;
  };
  if (const auto gpu = attempt(abi::handle_by_uuid, uuid)) return *gpu;
  if (const auto gpu = attempt(abi::handle_by_pci, pci)) return *gpu;
  return Answer<NvmlGpu>::unknown(why);
}

// ---------------------------------------------------------------------------------------------------------------------
// NvmlGpu: identity

Answer<std::string> NvmlGpu::name() const { return library_->text(abi::name, handle(device_)); }
Answer<std::string> NvmlGpu::uuid() const { return library_->text(abi::uuid, handle(device_)); }
Answer<std::string> NvmlGpu::serial() const { return library_->text(abi::serial, handle(device_)); }
Answer<std::string> NvmlGpu::vbios() const { return library_->text(abi::vbios, handle(device_)); }
Answer<std::string> NvmlGpu::pci() const {
  return convert<std::string>(library_->get<abi::PciInfo>(abi::pci_info, handle(device_)), pci_text);
}

// ---------------------------------------------------------------------------------------------------------------------
// NvmlGpu: clocks, power and temperature

Answer<unsigned> NvmlGpu::sm_mhz() const { return library_->get<unsigned>(abi::clock, handle(device_), abi::clock_sm); }
Answer<unsigned> NvmlGpu::sm_mhz_max() const {
  return library_->get<unsigned>(abi::max_clock, handle(device_), abi::clock_sm);
}
Answer<unsigned> NvmlGpu::memory_mhz() const {
  return library_->get<unsigned>(abi::clock, handle(device_), abi::clock_memory);
}
Answer<unsigned> NvmlGpu::memory_mhz_max() const {
  return library_->get<unsigned>(abi::max_clock, handle(device_), abi::clock_memory);
}

Answer<double> NvmlGpu::power_w() const {
  const auto now = library_->field<unsigned>(handle(device_), abi::field_power_instant);
  return now ? convert<double>(now, watts) : mean_power_w();
}
Answer<double> NvmlGpu::mean_power_w() const {
  return convert<double>(library_->get<unsigned>(abi::power, handle(device_)), watts);
}
Answer<double> NvmlGpu::energy_j() const {
  return convert<double>(library_->get<abi::Size>(abi::energy, handle(device_)), joules);
}
Answer<double> NvmlGpu::power_limit_w() const {
  return convert<double>(library_->get<unsigned>(abi::power_limit, handle(device_)), watts);
}

Answer<unsigned> NvmlGpu::temperature_c() const {
  return library_->get<unsigned>(abi::temperature, handle(device_), abi::temperature_gpu);
}
Answer<unsigned> NvmlGpu::memory_temperature_c() const {
  return library_->field<unsigned>(handle(device_), abi::field_memory_temperature);
}

Answer<std::uint64_t> NvmlGpu::clock_reasons() const {
  constexpr auto bits = +[](const abi::Size& mask) { return static_cast<std::uint64_t>(mask); };
  const auto reasons = library_->get<abi::Size>(abi::event_reasons, handle(device_));
  return convert<std::uint64_t>(reasons ? reasons : library_->get<abi::Size>(abi::throttle_reasons, handle(device_)),
                                bits);
}

// ---------------------------------------------------------------------------------------------------------------------
// NvmlGpu: memory errors

Answer<Modes> NvmlGpu::ecc() const { return modes(*library_, abi::ecc_mode, handle(device_)); }

Answer<std::uint64_t> NvmlGpu::ecc_errors(EccErrors errors, EccSince since) const {
  const unsigned type = errors == EccErrors::corrected ? abi::ecc_corrected : abi::ecc_uncorrected;
  const unsigned counter = since == EccSince::reset ? abi::ecc_volatile : abi::ecc_aggregate;
  const auto count = library_->get<abi::Size>(abi::ecc_errors, handle(device_), type, counter);
  return convert<std::uint64_t>(
      count, +[](const abi::Size& n) { return static_cast<std::uint64_t>(n); });
}

Answer<RemappedRows> NvmlGpu::remapped_rows() const {
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  auto why = library_->call(abi::remapped_rows, handle(device_), &corrected, &uncorrected, &pending, &failed);
  if (!why.empty()) return Answer<RemappedRows>::unknown(std::move(why));
  return RemappedRows{corrected, uncorrected, pending != 0, failed != 0};
}

Answer<RetiredPages> NvmlGpu::retired_pages() const {
  std::array<unsigned, 2> counts{};
  for (const unsigned cause : {abi::retired_single_bit, abi::retired_double_bit}) {
    // Without a buffer for addresses, NVML returns only the number of pages. The status is then insufficient_size if
    // there are any.
    bool missing = false;
    abi::Size* const none = nullptr;
    const auto status = library_->try_call(abi::retired_pages, missing, handle(device_), cause, &counts[cause], none);
    if (status == abi::success || status == abi::insufficient_size) continue;
    return Answer<RetiredPages>::unknown(missing ? "nvmlDeviceGetRetiredPages is missing from the library"
                                                 : NvmlLibrary::reason(status));
  }
  const auto pending = library_->get<unsigned>(abi::retirement_pending, handle(device_));
  return RetiredPages{counts[0], counts[1], pending ? std::optional(*pending != 0) : std::nullopt};
}

// ---------------------------------------------------------------------------------------------------------------------
// NvmlGpu: links

Answer<unsigned> NvmlGpu::pcie_generation() const {
  return library_->get<unsigned>(abi::pcie_generation, handle(device_));
}
Answer<unsigned> NvmlGpu::pcie_generation_max() const {
  return library_->get<unsigned>(abi::pcie_generation_max, handle(device_));
}
Answer<unsigned> NvmlGpu::pcie_width() const { return library_->get<unsigned>(abi::pcie_width, handle(device_)); }
Answer<unsigned> NvmlGpu::pcie_width_max() const {
  return library_->get<unsigned>(abi::pcie_width_max, handle(device_));
}
Answer<unsigned> NvmlGpu::pcie_replays() const { return library_->get<unsigned>(abi::pcie_replays, handle(device_)); }

Answer<unsigned> NvmlGpu::recovery_action() const {
  return library_->field<unsigned>(handle(device_), abi::field_recovery_action);
}

/// Returns the fields of all links with one call. The fields of a link are next to each other.
std::vector<Answer<std::uint64_t>> NvmlGpu::fields_of_links(unsigned links, std::span<const unsigned> fields) const {
  std::vector<abi::FieldValue> values(links * fields.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i].field = fields[i % fields.size()];
    values[i].scope = static_cast<unsigned>(i / fields.size());
    values[i].status = abi::not_supported;
  }
  std::string why;
  if (!values.empty()) {
    why = library_->call(abi::field_values, handle(device_), static_cast<int>(values.size()), values.data());
  }
  std::vector<Answer<std::uint64_t>> answers;
  for (const auto& value : values) {
    if (why.empty() && value.status == abi::success) {
      answers.emplace_back(number_of<std::uint64_t>(value));
    } else {
      answers.push_back(Answer<std::uint64_t>::unknown(why.empty() ? NvmlLibrary::reason(value.status) : why));
    }
  }
  return answers;
}

std::vector<LinkErrors> NvmlGpu::link_errors(unsigned links) const {
  constexpr std::array fields{abi::field_nvlink_replay, abi::field_nvlink_recovery, abi::field_nvlink_crc};
  const auto told = fields_of_links(links, fields);
  const auto counter = [&](unsigned link, std::size_t field, unsigned older) -> Answer<std::uint64_t> {
    if (const auto& answer = told[link * fields.size() + field]) return answer;
    const auto count = library_->get<abi::Size>(abi::nvlink_errors, handle(device_), link, older);
    if (!count) return Answer<std::uint64_t>::unknown(count.why());
    return static_cast<std::uint64_t>(*count);
  };
  std::vector<LinkErrors> errors;
  for (unsigned link = 0; link < links; ++link) {
    errors.push_back({counter(link, 0, abi::nvlink_replay), counter(link, 1, abi::nvlink_recovery),
                      counter(link, 2, abi::nvlink_crc_flit)});
  }
  return errors;
}

/// Returns the state of every link. Newer drivers report the number of links in a field. For older drivers, the list
/// ends at the first link whose state NVML does not return.
Answer<std::vector<Answer<bool>>> NvmlGpu::link_states() const {
  const auto told = library_->field<unsigned>(handle(device_), abi::field_nvlink_count);
  const unsigned at_most = std::min(told.value_or(abi::max_links), 2 * abi::max_links);
  std::vector<Answer<bool>> states;
  for (unsigned number = 0; number < at_most; ++number) {
    const auto state = library_->get<unsigned>(abi::nvlink_state, handle(device_), number);
    if (!state && !told) {
      if (number == 0 && state.why() != NvmlLibrary::reason(abi::not_supported)) {
        return Answer<std::vector<Answer<bool>>>::unknown(state.why());
      }
      break;
    }
    states.push_back(convert<bool>(
        state, +[](const unsigned& s) { return s != 0; }));
  }
  return states;
}

unsigned NvmlGpu::link_count() const {
  const auto states = link_states();
  return states ? static_cast<unsigned>(states->size()) : 0;
}

Answer<std::vector<Link>> NvmlGpu::links() const {
  const auto states = link_states();
  if (!states) return Answer<std::vector<Link>>::unknown(states.why());
  const auto count = static_cast<unsigned>(states->size());
  const auto speeds = fields_of_links(count, std::array{abi::field_nvlink_speed});
  const auto errors = link_errors(count);
  std::vector<Link> links;
  for (unsigned number = 0; number < count; ++number) {
    const auto speed = convert<unsigned>(
        speeds[number], +[](const std::uint64_t& s) { return static_cast<unsigned>(s); });
    links.push_back({number, (*states)[number], speed, errors[number]});
  }
  return links;
}

Answer<Fabric> NvmlGpu::fabric() const {
  abi::FabricInfo info{};
  info.version = abi::fabric_info_version;
  auto why = library_->call(abi::fabric, handle(device_), &info);
  if (!why.empty()) return Answer<Fabric>::unknown(std::move(why));
  constexpr char digits[] = "0123456789abcdef";
  std::string cluster;
  for (std::size_t i = 0; i < sizeof info.cluster; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) cluster += '-';
    cluster += digits[info.cluster[i] >> 4];
    cluster += digits[info.cluster[i] & 15];
  }
  return Fabric{info.state, info.status, info.clique, cluster, info.health_mask};
}

Answer<Traffic> NvmlGpu::nvlink_traffic() const {
  // Blackwell has the counters of bytes, earlier GPUs those of KiB.
  const auto bytes = traffic(*library_, handle(device_), abi::field_nvlink_tx_bytes, abi::field_nvlink_rx_bytes);
  if (bytes && bytes->sent + bytes->received > 0) return bytes;
  const auto kib = traffic(*library_, handle(device_), abi::field_nvlink_tx_kib, abi::field_nvlink_rx_kib);
  if (!kib) return bytes ? bytes : kib;
  return Traffic{kib->sent * 1024, kib->received * 1024};
}

Answer<Traffic> NvmlGpu::pcie_traffic() const {
  return traffic(*library_, handle(device_), abi::field_pcie_tx_bytes, abi::field_pcie_rx_bytes);
}

// ---------------------------------------------------------------------------------------------------------------------
// NvmlGpu: modes, memory and processes

Answer<Modes> NvmlGpu::mig() const { return modes(*library_, abi::mig_mode, handle(device_)); }
Answer<bool> NvmlGpu::persistence() const {
  const auto mode = library_->get<unsigned>(abi::persistence_mode, handle(device_));
  return convert<bool>(
      mode, +[](const unsigned& on) { return on != 0; });
}
Answer<unsigned> NvmlGpu::compute_mode() const { return library_->get<unsigned>(abi::compute_mode, handle(device_)); }

Answer<bool> NvmlGpu::vgpu() const {
  const auto mode = library_->get<unsigned>(abi::virtualization_mode, handle(device_));
  return mode ? Answer<bool>(*mode == abi::mode_vgpu) : Answer<bool>::unknown(mode.why());
}

Answer<bool> NvmlGpu::confidential() const {
  const auto state = library_->get<abi::ConfidentialState>(abi::confidential_state);
  return state ? Answer<bool>(state->feature != 0) : Answer<bool>::unknown(state.why());
}

Answer<GpuMemory> NvmlGpu::memory() const {
  const auto memory = library_->get<abi::Memory>(abi::memory, handle(device_));
  return convert<GpuMemory>(
      memory, +[](const abi::Memory& m) {
        return GpuMemory{m.total, m.used};
      });
}

Answer<Utilization> NvmlGpu::utilization() const {
  return convert<Utilization>(
      library_->get<abi::Utilization>(abi::utilization, handle(device_)), +[](const abi::Utilization& u) {
        return Utilization{u.gpu, u.memory};
      });
}

Answer<std::vector<GpuProcess>> NvmlGpu::processes() const {
  std::vector<abi::ProcessInfo> list(64);
  abi::Return status = abi::insufficient_size;
  bool missing = false;
  auto count = static_cast<unsigned>(list.size());
  // Retries, because the list may grow between the two calls.
  for (int attempt = 0; attempt < 5 && status == abi::insufficient_size; ++attempt) {
    list.resize(std::max<std::size_t>(list.size(), count + 16));
    count = static_cast<unsigned>(list.size());
    status = library_->try_call(abi::processes, missing, handle(device_), &count, list.data());
    if (missing) status = library_->try_call(abi::processes_v2, missing, handle(device_), &count, list.data());
  }
  if (status != abi::success) {
    return Answer<std::vector<GpuProcess>>::unknown(
        missing ? std::string(abi::processes.name) + " is missing from the library" : NvmlLibrary::reason(status));
  }
  std::vector<GpuProcess> found;
  for (unsigned i = 0; i < std::min<std::size_t>(count, list.size()); ++i) {
    GpuProcess process{list[i].pid, process_name(list[i].pid), std::nullopt};
    if (list[i].used_memory != abi::not_available) process.memory_bytes = list[i].used_memory;
    found.push_back(std::move(process));
  }
  return found;
}

}  // namespace shakedown
