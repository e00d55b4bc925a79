# Cross-compiles the engine with the C++ compiler of the PyPI package `ziglang`, whose headers and libraries cover every glibc and
# musl: the wheel of any Linux machine installs on Linux systems from 2014 on. `BOXSCORE_ZIG_TARGET` is Zig's name of the target,
# such as x86_64-linux-gnu.2.17. The C++ standard library is linked statically.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES BOXSCORE_ZIG_TARGET BOXSCORE_ZIG)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${BOXSCORE_ZIG_TARGET}")
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_CXX_COMPILER "${BOXSCORE_ZIG}" c++ -target "${BOXSCORE_ZIG_TARGET}")
foreach(tool ar ranlib)
  file(WRITE "${CMAKE_BINARY_DIR}/zig-${tool}" "#!/bin/sh\nexec '${BOXSCORE_ZIG}' ${tool} \"$@\"\n")
  file(CHMOD "${CMAKE_BINARY_DIR}/zig-${tool}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  string(TOUPPER ${tool} variable)
  set(CMAKE_${variable} "${CMAKE_BINARY_DIR}/zig-${tool}")
endforeach()
