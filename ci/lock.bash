# shellcheck shell=bash disable=SC2034  # refusal is for who sources this
# Sourced by whatever writes results: one run at a time in a build folder.

# take_lock BUILD [PID]: holds BUILD/lock on file descriptor 9 for the run of process PID (this one) for as long as this
# process lives, or one that inherits the descriptor; the kernel frees it, whatever ends them. Where that run holds it
# already, that is as good. Fails and says who holds it, in `refusal`, where another run does.
take_lock() {
  local file=$1/lock owner="process ${2:-$$} on $HOSTNAME" code=0
  { mkdir -p "$1" && exec 9>>"$file"; } 2>/dev/null || { refusal="$file cannot be written" && return 1; }
  flock -n -E 75 9 2>/dev/null || code=$?
  if [[ $code -eq 75 && $(<"$file") != "$owner,"* ]]; then  # a run that is just ending, or has not said yet who it is
    code=0
    flock -w 2 -E 75 9 || code=$?
  fi
  if [[ $code -eq 75 ]]; then
    [[ $(<"$file") != "$owner,"* ]] || return 0
    refusal="$1 is in use by $(<"$file"): wait for it, end it, or set SHAKEDOWN_BUILD to another folder"
    return 1
  fi
  # Where the file system has no locks, files of another run are noticed by their id.
  [[ $code -eq 0 ]] || echo "ci: $file cannot be locked here: see to it that one run at a time uses $1" >&2
  echo "$owner, since $(date -u +%FT%TZ)" >"$file"
}
