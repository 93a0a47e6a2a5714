#!/bin/bash
# The image's entry point. Spark on Kubernetes passes `driver` or `executor`; other arguments are a kraftwatch command.
set -euo pipefail

case "${1:-}" in
driver)
  shift
  # Java's answer to SIGTERM is to stop Spark in the middle of a batch. The job, its child, ends in order, and Java with it.
  trap 'pkill -TERM --parent "$!" --full kraftwatch_job.py || kill -TERM "$!" || true' TERM
  spark-submit --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@" &
  # A signal ends the wait, too: then with its own code, also if the job has ended meanwhile.
  while kill -0 "$!" 2>/dev/null; do
    wait "$!" || true
  done
  wait "$!"
  ;;
executor)
  # Spark passes the executors' Java options in numbered variables: SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1 ...
  mapfile -t options < <(printenv | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4 -n | cut -d= -f2-)
  exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
  ;;
*)
  exec kraftwatch "$@"
  ;;
esac
