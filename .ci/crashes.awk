# Reads the output of go test, and prints a line for each package that failed: "failed PACKAGE", or
# "crashed PACKAGE" if Go's own runtime crashed where a timer of a bubble runs under the race
# detector, and no test failed before. (Go 1.26: all processors share the race context of a bubble's
# timers, see runtime.unlockAndRun; two goroutines of a bubble that poll channels of timers at once
# may corrupt it.)
/^SIGSEGV: segmentation violation/ { crash = 1 }
/^runtime\.\(\*timer\)\.(maybeRunChan|unlockAndRun)/ { timer = 1 }
/^ *--- FAIL|DATA RACE|^panic:/ { fault = 1 }
/^(ok|FAIL|---|\?) *\t/ {
  if (/^FAIL/) print (crash && timer && !fault ? "crashed" : "failed"), $2
  crash = timer = fault = 0
}
