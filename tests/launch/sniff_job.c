/* A job that tests a GPU through the C interface: sniff_job GPU SECONDS [SIZE]. Prints the line; the exit code is the
 * result. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "launch/sniff/shakedown_sniff.h"

int main(int argc, char** argv) {
  static char line[4096];
  if (argc < 3) return 9;
  if (getenv("IGNORE_CHILDREN") != NULL) signal(SIGCHLD, SIG_IGN);
  const int result =
      shakedown_sniff(argv[1], strtod(argv[2], NULL), line, argc > 3 ? strtoul(argv[3], NULL, 10) : sizeof line);
  printf("%s\n", line);
  return result;
}
