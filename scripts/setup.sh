#!/usr/bin/env bash
# Sets up a clone: system packages, .venv from requirements.lock, ROS interfaces, this project (editable).
# Safe to interrupt and to run again; a step whose inputs did not change is skipped. `VLATOOLS_PYTHON` chooses the interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly root=$PWD
readonly venv=$root/.venv
readonly state=$root/.setup            # lock and log: outside .venv, which may be wiped
readonly log=$state/setup.log
readonly marker=$venv/.vlatools-stamps  # one file per finished step, holding the hash of its inputs; its folder marks .venv as ours
readonly interfaces=ros2_ws/src/vlatools_interfaces
readonly needs_mib=4000

# A sourced ROS, another environment's loader path or pip's per-user mode would leak into this one.
unset PYTHONPATH PYTHONHOME AMENT_PREFIX_PATH CMAKE_PREFIX_PATH COLCON_PREFIX_PATH LD_LIBRARY_PATH
unset _ROS_WHEELS_BOOTSTRAP_COMPLETE VIRTUAL_ENV PIP_TARGET PIP_PREFIX
export PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONNOUSERSITE=1

say() { printf '%s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# ---------------------------------------------------------------------------------------------------------- what changed

hash_of() { cat "$@" 2>/dev/null | sha256sum | cut -c1-20; }

interface_files() { find "$interfaces" -type f | LC_ALL=C sort; }

version_of() { "$1" -S -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null || true; }

# Sets the wanted stamp of each step, from the version of the interpreter in use.
compute_stamps() {
  local base="$root python-$1 $(hash_of requirements.lock scripts/setup.sh)"
  local files; files=$(interface_files)
  stamp_packages=$base
  # shellcheck disable=SC2086  # interface files have no blanks in their names
  stamp_interfaces="$base $(sha256sum <<<"$files" | cut -c1-20) content $(hash_of $files)"
  stamp_project="$base $(hash_of pyproject.toml setup.py)"
}

is_done() { [[ -f $marker/$1 && $(<"$marker/$1") == "$2" ]]; }
mark_done() { printf '%s' "$2" >"$marker/$1"; }

all_done() {
  is_done packages "$stamp_packages" && is_done interfaces "$stamp_interfaces" && is_done project "$stamp_project"
}

# ------------------------------------------------------------------------------------------------------------ interpreter

find_python() {
  local candidate version
  if [[ -n ${VLATOOLS_PYTHON:-} ]]; then
    command -v "$VLATOOLS_PYTHON" >/dev/null || fail "VLATOOLS_PYTHON=$VLATOOLS_PYTHON is not a command; give the path of a Python 3.10 to 3.13"
    version=$(version_of "$VLATOOLS_PYTHON")
    [[ $version =~ ^3\.1[0-3]\. ]] || fail "VLATOOLS_PYTHON=$VLATOOLS_PYTHON is Python '${version:-none}'; Python 3.10 to 3.13 is needed (ROS 2 wheels exist for those)"
    python=$(command -v "$VLATOOLS_PYTHON")
    return
  fi
  for candidate in python3 python3.12 python3.13 python3.11 python3.10; do
    command -v "$candidate" >/dev/null || continue
    [[ $(version_of "$candidate") =~ ^3\.1[0-3]\. ]] || continue
    python=$(command -v "$candidate")
    return
  done
  fail "no Python 3.10 to 3.13 found (python3 is '$(version_of python3)'); install one, or name it: VLATOOLS_PYTHON=/path/to/python make setup"
}

# -------------------------------------------------------------------------------------------------------- system packages

# Prints the Debian packages that are missing, by looking for what they provide.
missing_system_packages() {
  command -v c++ >/dev/null || echo g++
  command -v make >/dev/null || echo make
  command -v cmake >/dev/null || echo cmake
  "$python" - <<'PY'
import ctypes, glob, os, sys, sysconfig

version = "%d.%d" % sys.version_info[:2]
try:
    import ensurepip, venv  # noqa: F401
except ImportError:
    print(f"python{version}-venv")
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    print(f"python{version}-dev")
for library, package in (
    ("libusb-1.0.so.0", "libusb-1.0-0"),
    ("libEGL.so.1", "libegl1"),
    ("libEGL_mesa.so.0", "libegl-mesa0"),
    ("libGL.so.1", "libgl1"),
):
    try:
        ctypes.CDLL(library)
    except OSError:
        print(package)
if not glob.glob("/usr/lib/*/dri/swrast_dri.so"):
    print("libgl1-mesa-dri")
PY
}

apt_install() {
  local as_root=()
  ((EUID == 0)) || as_root=(sudo -n)
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}

install_system_packages() {
  local missing
  mapfile -t missing < <(missing_system_packages)
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || fail "missing here, by their Debian names (there is no apt-get to install them with): ${missing[*]}"
  if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
    fail "system packages are missing; run this, then again what you ran: sudo apt-get install -y ${missing[*]}"
  fi
  run_step "Installing system packages: ${missing[*]}" apt_install "${missing[@]}"
  mapfile -t missing < <(missing_system_packages)
  ((${#missing[@]} == 0)) || fail "still missing after the installation: ${missing[*]} (interpreter: $python); see $log"
}

check_machine() {
  [[ $(uname -sm) == "Linux x86_64" ]] || fail "this is $(uname -sm); the ROS 2 and Franka wheels exist for Linux x86_64 only"
  local glibc; glibc=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
  [[ $(printf '%s\n2.34\n' "$glibc" | sort -V | head -1) == 2.34 ]] || fail "glibc is $glibc; franky-control needs 2.34 or newer (Debian 12, Ubuntu 22.04 or newer)"
}

check_room() {
  local free; free=$(df -Pm "$root" | awk 'NR==2 {print $4}')
  ((free >= needs_mib)) || fail "$free MiB free on the disk of $root; $needs_mib MiB are needed"
}

check_cmake() {
  local version; version=$(cmake --version | awk 'NR==1 {print $3}')
  [[ $(printf '%s\n3.20\n' "$version" | sort -V | head -1) == 3.20 ]] || fail "cmake is $version; ROS 2 needs 3.20 or newer"
}

# ------------------------------------------------------------------------------------------------------------------ steps

child=

on_signal() {
  trap '' INT TERM
  [[ -z $child ]] || kill -TERM -- "-$child" 2>/dev/null || true
  wait
  printf '\nsetup: interrupted; run the same command again to go on\n' >&2
  exit 130
}

# run_step TEXT COMMAND...: runs it into the log, shows how long it took, and the end of the log if it failed.
# The command gets a process group of its own, so that a signal ends all of it; it is no condition, so that `set -e` holds inside.
run_step() {
  local text=$1 start=$SECONDS status=0; shift
  printf '\n=== %s\n' "$text" >>"$log"
  printf '  %s ... ' "$text"
  set -m
  (set -e; "$@") >>"$log" 2>&1 </dev/null &
  child=$!
  set +m
  while [[ -t 1 ]] && kill -0 "$child" 2>/dev/null; do
    printf '\r  %s ... %d s' "$text" $((SECONDS - start))
    sleep 0.5
  done
  wait "$child" || status=$?
  child=
  [[ ! -t 1 ]] || printf '\r  %s ... ' "$text"
  if ((status == 0)); then
    printf '%d s\n' $((SECONDS - start))
  else
    printf 'failed after %d s\n\n' $((SECONDS - start))
    tail -n 25 "$log" >&2
    fail "'$text' failed; the whole log is $log. After the cause is mended, run the same command again."
  fi
}

wipe() {
  say "  $1: starting afresh"
  rm -rf "$venv" ros2_ws/build ros2_ws/install
}

make_venv() {
  if [[ -e $venv ]]; then
    if [[ ! -d $marker ]]; then
      fail "$venv exists and was not made by this script; move it away and run this again"
    elif [[ $(cat "$marker/made-with" 2>/dev/null) != "$root $(version_of "$python")" || $(version_of "$venv/bin/python") != "$(version_of "$python")" ]]; then
      wipe "The Python version or the folder changed"
    elif [[ -f $marker/unfinished ]]; then
      wipe "The last set-up was interrupted while installing"
    fi
  fi
  [[ -e $venv ]] && return
  mkdir -p "$marker"
  touch "$marker/unfinished"
  printf '%s' "$root $(version_of "$python")" >"$marker/made-with"
  run_step "Making .venv with Python $(version_of "$python")" "$python" -m venv "$venv"
}

# The wheels' CMake files name the include folders of the machine that built them; name this one's.
mend_wheel_cmake_files() {
  local include platlib
  include=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  platlib=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
  { grep -rlE --include='*.cmake' '/opt/python/cp[0-9]+-' "$venv/share" || true; } | xargs -r sed -i -E \
    -e "s#/opt/python/cp[0-9]+-cp[0-9]+/include/python3\.[0-9]+#$include#g" \
    -e "s#/opt/python/cp[0-9]+-cp[0-9]+/lib/python3\.[0-9]+/site-packages#$platlib#g"
}

install_packages() {
  # The builders first: empy comes as source, and is then built by the pinned setuptools.
  "$venv/bin/python" -m pip install --no-deps $(grep -E '^(setuptools|wheel)==' requirements.lock)
  "$venv/bin/python" -m pip install --no-deps --no-build-isolation -r requirements.lock
  mend_wheel_cmake_files
}

build_interfaces() {
  local package=vlatools_interfaces built=ros2_ws/install/vlatools_interfaces python_dir last=
  [[ ! -f $marker/interfaces ]] || last=$(<"$marker/interfaces")
  # Edited files build on what is there; other files, packages or an interrupted build do not.
  if [[ -f $marker/interfaces-unfinished || ${last% content *} != "${stamp_interfaces% content *}" ]]; then
    rm -rf "ros2_ws/build/$package" "$built"
  fi
  touch "$marker/interfaces-unfinished"
  (
    cd ros2_ws
    export AMENT_PREFIX_PATH=$venv CMAKE_PREFIX_PATH=$venv PATH="$venv/bin:$PATH" MAKEFLAGS="-j$(nproc)"
    colcon build --packages-select "$package" --event-handlers console_direct+ --cmake-args \
      -DVLATOOLS_PYTHON_ONLY=ON -DBUILD_TESTING=OFF "-DPython3_EXECUTABLE=$venv/bin/python"
  )
  # Importable without sourcing anything: .venv/lib is on the loader path of .venv/bin/python (ros-wheels-bootstrapper).
  find "$venv/lib" -maxdepth 1 -lname "*/$package/*" -delete
  ln -sf "$root/$built/lib/"*.so "$venv/lib/"
  ln -sfn "$root/$built/share/$package" "$venv/share/$package"
  python_dir=$(find "$root/$built" -maxdepth 4 -type d -name '*-packages')
  printf '%s\n' "$python_dir" >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/$package.pth"
  "$venv/bin/python" -c "from $package.msg import ArmState; ArmState.__class__.__import_type_support__()"
  rm "$marker/interfaces-unfinished"
}

install_project() { "$venv/bin/python" -m pip install --no-deps --no-build-isolation -e .; }

# ------------------------------------------------------------------------------------------------------------------- main

# Fast path: .venv's own interpreter answers, is the one asked for, and every stamp fits.
current=$(version_of "$venv/bin/python")
if [[ -n $current && ( -z ${VLATOOLS_PYTHON:-} || $(version_of "$VLATOOLS_PYTHON") == "$current" ) ]]; then
  compute_stamps "$current"
  all_done && exit 0
fi

mkdir -p "$state"
exec 9>"$state/lock"
if ! flock -n 9; then
  say "Another set-up of this folder is running; waiting for it (at most 15 minutes)"
  flock -w 900 9 || fail "the other set-up has held $state/lock for 15 minutes; stop it and run this again"
fi
trap on_signal INT TERM
: >"$log"

started=$SECONDS
check_machine
# Without a wish, a .venv of ours keeps its Python, whatever python3 is today.
if [[ -z ${VLATOOLS_PYTHON:-} && -d $marker && $current =~ ^3\.1[0-3]\. ]]; then
  python=$(readlink -f "$venv/bin/python")
else
  find_python
fi
say "Setting up vlatools in $root (the first time takes a few minutes; log: ${log#"$root/"})"
install_system_packages
check_cmake
make_venv
compute_stamps "$(version_of "$python")"
if ! is_done packages "$stamp_packages"; then
  check_room
  touch "$marker/unfinished"
  run_step "Installing $(grep -c == requirements.lock) pinned packages (1.5 GB)" install_packages
  rm "$marker/unfinished"
  mark_done packages "$stamp_packages"
fi
if ! is_done interfaces "$stamp_interfaces"; then
  run_step "Building the ROS interfaces with colcon" build_interfaces
  mark_done interfaces "$stamp_interfaces"
fi
if ! is_done project "$stamp_project"; then
  run_step "Installing vlatools itself (editable)" install_project
  mark_done project "$stamp_project"
fi
say "Set up in $((SECONDS - started)) s: .venv/bin/vlatools"
