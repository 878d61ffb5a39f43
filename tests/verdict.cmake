# Tests of results, thresholds, verdict, regression and report; and acceptance_test, the program that judges.
shakedown_test(base_test unit SOURCES base/gpu_health_test.cpp base/host_list_test.cpp base/xids_test.cpp base/statistics_test.cpp base/names_test.cpp base/text_test.cpp base/key_test.cpp base/archive_test.cpp
  LIBRARIES shakedown::base)
shakedown_test(results_test unit SOURCES thresholds/results_test.cpp LIBRARIES shakedown::verdict nlohmann_json::nlohmann_json)
shakedown_test(thresholds_test unit SOURCES thresholds/profile_test.cpp LIBRARIES shakedown::verdict)
shakedown_test(site_test unit SOURCES thresholds/site_test.cpp LIBRARIES shakedown::verdict nlohmann_json::nlohmann_json)
shakedown_test(machine_test unit SOURCES thresholds/machine_test.cpp LIBRARIES shakedown::verdict nlohmann_json::nlohmann_json)
shakedown_test(matrix_test unit SOURCES thresholds/matrix_test.cpp LIBRARIES shakedown::verdict nlohmann_json::nlohmann_json)
shakedown_test(verdict_test unit SOURCES thresholds/verdict_test.cpp thresholds/explain_test.cpp thresholds/rank_telemetry_test.cpp thresholds/gpu_errors_test.cpp LIBRARIES shakedown::verdict nlohmann_json::nlohmann_json)
shakedown_test(preflight_test unit SOURCES thresholds/preflight_test.cpp LIBRARIES shakedown::verdict nlohmann_json::nlohmann_json)
shakedown_test(profiles_test unit SOURCES thresholds/profiles_test.cpp LIBRARIES shakedown::verdict nlohmann_json::nlohmann_json)
shakedown_test(samples_test unit SOURCES thresholds/samples_test.cpp LIBRARIES shakedown::verdict)
shakedown_test(peers_test unit SOURCES thresholds/peers_test.cpp thresholds/fleet_lines_test.cpp LIBRARIES shakedown::verdict nlohmann_json::nlohmann_json)
shakedown_test(culprit_test unit SOURCES thresholds/diagnosis_test.cpp LIBRARIES shakedown::verdict nlohmann_json::nlohmann_json)
shakedown_test(crosscheck_test unit SOURCES thresholds/crosscheck_test.cpp thresholds/scaling_test.cpp LIBRARIES shakedown::report nlohmann_json::nlohmann_json)
shakedown_test(validity_test unit SOURCES thresholds/validity_test.cpp LIBRARIES shakedown::verdict nlohmann_json::nlohmann_json)
shakedown_test(falsified_test unit SOURCES thresholds/falsified_test.cpp LIBRARIES shakedown::verdict)
shakedown_test(nodes_test unit SOURCES thresholds/nodes_test.cpp LIBRARIES shakedown::verdict nlohmann_json::nlohmann_json)
shakedown_test(regression_test unit SOURCES thresholds/regression_test.cpp LIBRARIES shakedown::verdict nlohmann_json::nlohmann_json)
shakedown_test(baseline_test unit SOURCES thresholds/baseline_test.cpp LIBRARIES shakedown::verdict nlohmann_json::nlohmann_json)
shakedown_test(watch_test unit SOURCES thresholds/watch_test.cpp LIBRARIES shakedown::report nlohmann_json::nlohmann_json)
shakedown_test(drift_test unit SOURCES thresholds/drift_test.cpp LIBRARIES shakedown::verdict)
shakedown_test(terminal_test unit SOURCES report/terminal_test.cpp LIBRARIES shakedown::report nlohmann_json::nlohmann_json)
shakedown_test(report_test unit SOURCES report/report_test.cpp report/node_commands_test.cpp report/html_test.cpp
  LIBRARIES shakedown::report nlohmann_json::nlohmann_json yaml-cpp::yaml-cpp)

add_executable(acceptance_test acceptance_test.cpp)
target_link_libraries(acceptance_test PRIVATE shakedown::report GTest::gtest)
target_compile_definitions(acceptance_test PRIVATE SHAKEDOWN_VERSION="${PROJECT_VERSION}")

# The real programs, as a user runs them: exit codes, last lines, files.
shakedown_test(acceptance_cli_test unit SOURCES report/acceptance_cli_test.cpp
  LIBRARIES shakedown::verdict nlohmann_json::nlohmann_json)
target_compile_definitions(acceptance_cli_test PRIVATE
  ACCEPTANCE_TEST="$<TARGET_FILE:acceptance_test>" SHAKEDOWN_PROGRAM="$<TARGET_FILE:shakedown>")
add_dependencies(acceptance_cli_test acceptance_test shakedown)

# Generated clusters with planted faults: the judge is judged. simulate_clusters makes the whole table.
add_library(simulate STATIC thresholds/simulate.cpp)
target_link_libraries(simulate PUBLIC shakedown::verdict)
add_executable(simulate_clusters thresholds/simulate_clusters.cpp)
target_link_libraries(simulate_clusters PRIVATE simulate)
shakedown_test(simulate_test unit SOURCES thresholds/simulate_test.cpp LIBRARIES simulate nlohmann_json::nlohmann_json)

# 10,000 GPUs x 60 benchmarks x 5 repetitions: under 20 s and 2 GiB, culprits named, or it fails.
add_executable(judge_scale thresholds/judge_scale.cpp)
target_link_libraries(judge_scale PRIVATE simulate shakedown::report nlohmann_json::nlohmann_json)
target_compile_definitions(judge_scale PRIVATE SHAKEDOWN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
add_test(NAME unit.judge_scale COMMAND judge_scale)
set_tests_properties(unit.judge_scale PROPERTIES LABELS unit RUN_SERIAL TRUE)
# One result file of 200 MB.
add_test(NAME unit.judge_200_mb COMMAND judge_scale --one-file 8000)
set_tests_properties(unit.judge_200_mb PROPERTIES LABELS unit RUN_SERIAL TRUE)
