# Reads the output of a step of .ci/run, and prints the failures: for each package with a failed
# test, the first failed test, the test's message, and the command that repeats the failure; for any
# other failure, the end of the output. The caller sets step, and sets flags to further arguments of
# the command ("-race "). The program prints 20 lines at most, so that these lines and the times of
# all steps fit into the last 30 lines of a log.

BEGIN { most = 20; of_one = 8 }

# A package's result ends the lines of the package.
/^(ok  |\?   )/ { forget(); next }
/^FAIL\t/ && $2 ~ /\// {
  if (kept) {
    say("---- " $2)
    for (i = 1; i <= kept; i++) say(lines[i])
    package = $2
    sub(/^github.com\/lockmesh\/lockmesh/, ".", package)
    say("again: go test -count=1 " flags (test ? "-run '^" test "$' " : "") package)
  } else {
    say($0)
  }
  forget()
  next
}

# A failed test begins here, or a failure that ends a whole test binary.
/^ *--- FAIL: |^panic: |^fatal error: |^SIGSEGV: |^WARNING: DATA RACE|^# / {
  begun = 1
  if (/^--- FAIL: / && !test) test = $3
}
begun && !/^ *=== |^FAIL$/ && kept < of_one { lines[++kept] = $0 }
{ end[NR % most] = $0; read = NR }

function forget() { kept = 0; begun = 0; test = "" }

function say(line) {
  if (said < most) print substr(line, 1, 300)
  said++
}

END {
  if (said) {
    if (said > most) print "... and " said - most " more lines: see the log of the step"
    exit
  }
  for (i = read - most + 1; i <= read; i++) if (i > 0) print substr(end[i % most], 1, 300)
  print "again: .ci/run " step
}
