# Tests of results, thresholds, verdict, regression and report, and acceptance_test, the program that judges.
shakedown_test(base_test unit
  SOURCES base/gpu_health_test.cpp base/host_list_test.cpp base/known_events_test.cpp base/statistics_test.cpp base/names_test.cpp
    base/text_test.cpp base/key_test.cpp base/archive_test.cpp base/process_test.cpp base/driver_library_test.cpp
    base/environment_test.cpp base/exit_code_test.cpp base/files_test.cpp base/file_pieces_test.cpp base/console_test.cpp base/flags_test.cpp base/nearest_word_test.cpp base/held_folder_test.cpp base/host_memory_test.cpp base/sha256_test.cpp base/rank_values_test.cpp base/threads_test.cpp
  LIBRARIES shakedown::base)
target_compile_definitions(base_test PRIVATE EVENTS_TABLE="$<TARGET_FILE:events_table>")
add_dependencies(base_test events_table)
# A separate program, because its time limits are short.
shakedown_test(keeper_test unit WAITS SOURCES base/keeper_test.cpp LIBRARIES shakedown::base)

# Builds result files for tests; compiled once.
add_library(results_builder STATIC thresholds/results_builder.cpp)
target_link_libraries(results_builder PUBLIC shakedown::verdict)
target_compile_definitions(results_builder PRIVATE SHAKEDOWN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

function(thresholds_test name)
  list(TRANSFORM ARGN PREPEND thresholds/)
  shakedown_test(${name} unit PROGRAM thresholds_tests SOURCES ${ARGN} LIBRARIES results_builder shakedown::report)
endfunction()
thresholds_test(results_test results_test.cpp)
shakedown_test(strict_json_test unit SOURCES thresholds/strict_json_test.cpp LIBRARIES results_builder)
thresholds_test(thresholds_test profile_test.cpp)
thresholds_test(site_test site_test.cpp)
shakedown_test(storage_rules_test unit SOURCES thresholds/storage_rules_test.cpp LIBRARIES results_builder)
thresholds_test(machine_test machine_test.cpp)
thresholds_test(matrix_test matrix_test.cpp)
thresholds_test(verdict_test verdict_test.cpp finding_test.cpp missing_values_test.cpp repetitions_test.cpp scope_test.cpp
  explain_test.cpp rank_telemetry_test.cpp gpu_errors_test.cpp port_errors_test.cpp transport_test.cpp)
thresholds_test(preflight_test preflight_test.cpp)
thresholds_test(peers_test peers_test.cpp fleet_lines_test.cpp)
thresholds_test(culprit_test diagnosis_test.cpp software_test.cpp consequences_test.cpp)
thresholds_test(crosscheck_test crosscheck_test.cpp scaling_test.cpp reference_gpus_test.cpp)
thresholds_test(validity_test validity_test.cpp possible_values_test.cpp contradictions_test.cpp)
thresholds_test(nodes_test nodes_test.cpp)
thresholds_test(seen_test seen_test.cpp)
thresholds_test(remedies_test remedies_test.cpp)
target_compile_definitions(thresholds_tests PRIVATE REMEDIES_TABLE="$<TARGET_FILE:remedies_table>")
add_dependencies(thresholds_tests remedies_table)
thresholds_test(regression_test regression_test.cpp)
shakedown_test(tuning_test unit SOURCES thresholds/tuning_test.cpp LIBRARIES shakedown::report)
shakedown_nightly(tuning tuning_test)
thresholds_test(baseline_test baseline_test.cpp)
thresholds_test(soak_test soak_test.cpp)

# Replaces the library's table by one with an additional row.
set(table ${CMAKE_CURRENT_BINARY_DIR}/families_table.hpp)
set(yaml ${PROJECT_SOURCE_DIR}/thresholds/families/families.yaml ${CMAKE_CURRENT_SOURCE_DIR}/thresholds/made_up_family.yaml)
add_custom_command(OUTPUT ${table} COMMAND ${CMAKE_COMMAND} -E cat ${yaml} > ${table}.yaml
  COMMAND families_table ${table}.yaml ${table} DEPENDS families_table ${yaml})
shakedown_test(families_test unit LIBRARIES results_builder
  SOURCES thresholds/families_test.cpp ${PROJECT_SOURCE_DIR}/thresholds/catalogue/families.cpp ${table})
target_include_directories(families_test PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
target_compile_definitions(families_test PRIVATE FAMILIES_TABLE="$<TARGET_FILE:families_table>"
  MEASURED_FAMILIES="${PROJECT_BINARY_DIR}/share/shakedown/families")
add_dependencies(families_test families_table)

shakedown_test(terminal_test unit PROGRAM report_tests SOURCES report/terminal_test.cpp LIBRARIES results_builder shakedown::report)
shakedown_test(report_test unit PROGRAM report_tests
  SOURCES report/report_test.cpp report/node_commands_test.cpp report/html_test.cpp report/again_test.cpp report/costs_test.cpp report/products_test.cpp report/step_times_test.cpp report/tables_test.cpp LIBRARIES yaml-cpp::yaml-cpp)
shakedown_test(headline_test unit PROGRAM report_tests SOURCES report/headline_test.cpp report/rehearse_test.cpp
  LIBRARIES shakedown::rehearsal)
shakedown_nightly(rehearse report_tests --gtest_filter=Rehearsal.*)

# Runs of separate nodes, judged together.
shakedown_test(fleet_test unit SOURCES report/fleet_test.cpp LIBRARIES shakedown::rehearsal shakedown::report)
target_compile_definitions(fleet_test PRIVATE SHAKEDOWN_PROGRAM="$<TARGET_FILE:shakedown>")
add_dependencies(fleet_test shakedown)
shakedown_nightly(fleet fleet_test)
shakedown_test(ledger_test unit SOURCES thresholds/ledger_test.cpp LIBRARIES results_builder shakedown::rehearsal)

add_executable(acceptance_test acceptance_test.cpp)
target_link_libraries(acceptance_test PRIVATE shakedown::report GTest::gtest)
target_compile_definitions(acceptance_test PRIVATE SHAKEDOWN_VERSION="${PROJECT_VERSION}")

# The real programs as users run them: exit codes, last lines, files.
shakedown_test(acceptance_cli_test unit PROGRAM report_tests
  SOURCES report/acceptance_cli_test.cpp report/report_files_test.cpp report/baseline_cli_test.cpp report/dying_judge_test.cpp
    report/readme_examples_test.cpp report/nodes_verb_test.cpp report/claim_test.cpp)
shakedown_test(judge_apart_test unit PROGRAM report_tests SOURCES report/judge_apart_test.cpp)
add_library(dying_judge MODULE faults/dying_judge.cpp)  # preloaded
target_link_libraries(dying_judge PRIVATE shakedown_options ${CMAKE_DL_LIBS})
target_compile_definitions(report_tests PRIVATE ACCEPTANCE_TEST="$<TARGET_FILE:acceptance_test>"
  SHAKEDOWN_PROGRAM="$<TARGET_FILE:shakedown>" DYING_JUDGE="$<TARGET_FILE:dying_judge>")
add_dependencies(report_tests acceptance_test shakedown dying_judge)

# Tests that judge for several seconds.
function(judging_test name)
  shakedown_test(${name} unit PROGRAM judging_tests SOURCES thresholds/${name}.cpp LIBRARIES results_builder)
endfunction()
judging_test(profiles_test)
judging_test(samples_test)
judging_test(doubt_test)
judging_test(falsified_test)
judging_test(drift_test)
shakedown_nightly(doubt_test judging_tests --gtest_filter=AVerdict.*:AValueThatIsOff*:AHealthyRun.*:ACollective*)
shakedown_nightly(falsified_test judging_tests --gtest_filter=FalsifiedRuns.*)
shakedown_nightly(drift_test judging_tests --gtest_filter=Drift.*)
set_tests_properties(nightly.drift_test PROPERTIES LABELS "nightly;long")

# 10,000 GPUs: must name the culprits within 20 s and 1 GiB.
add_executable(judge_scale thresholds/judge_scale.cpp)
target_link_libraries(judge_scale PRIVATE shakedown::rehearsal results_builder shakedown::report nlohmann_json::nlohmann_json)
target_compile_definitions(judge_scale PRIVATE SHAKEDOWN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
add_test(NAME unit.judge_scale COMMAND judge_scale 104 1000)
set_tests_properties(unit.judge_scale PROPERTIES LABELS unit)
shakedown_nightly(judge_scale judge_scale)
shakedown_nightly(judge_200_mb judge_scale --one-file 5000)  # one result file of 200 MB
