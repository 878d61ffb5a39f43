// The size of a simulated cluster.
#pragma once

namespace shakedown::rehearsal {

struct Shape {
  int hosts = 1, gpus = 8;       // number of hosts, and of GPUs in each host
  int leaf_hosts = 16;           // number of hosts under each leaf switch
  int rack_hosts = 4;            // number of hosts in a rack; an HGX host has 8U, so a rack of 42U has four
  bool leaves_are_known = true;  // true: a site file gives the leaf switches

  int ranks() const { return hosts * gpus; }
};

}  // namespace shakedown::rehearsal
