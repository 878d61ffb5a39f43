# The acceptance tests: one per measurement, which needs its result file, and one for the whole machine. The latter is the last
# and always runs.
set(results ${PROJECT_BINARY_DIR}/results/ctest)
set(judge acceptance_test --run-id=@${results}/run_id)  # of this run only
set(all "")
foreach(family IN LISTS SHAKEDOWN_FAMILIES)
  add_test(NAME acceptance.${family} COMMAND ${judge} --results=${results}/${family}.json --families=${family}
    --partial-ok --skip-unmeasured)
  set_tests_properties(acceptance.${family} PROPERTIES FIXTURES_REQUIRED results.${family} LABELS acceptance SKIP_RETURN_CODE 77)
  list(APPEND all bench.${family} acceptance.${family})
endforeach()

# With fixtures it would not run after the first failure. DEPENDS only sets the order.
add_test(NAME acceptance.cluster COMMAND ${judge} --results=${results} --verdict=${results}/verdict.json)
set_tests_properties(acceptance.cluster PROPERTIES DEPENDS "${all}" LABELS acceptance)
