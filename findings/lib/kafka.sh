# Sourced by the scripts about Kafka: its jars from Maven Central, and nodes on loopback. Needs Java 17+ and Maven 3.8+.
# A node is a Java of 256 MB with its properties in $folder/ID.properties; all end with the script.
folder=$(mktemp -d)
nodes=
trap 'for each in $nodes; do kill -9 $each 2>/dev/null || :; done; wait 2>/dev/null || :; rm -rf "$folder"' EXIT

jars() { # VERSION: downloads Kafka and its tools, whose classes the other functions then run
    KAFKA=$folder/jars-$1
    mkdir "$KAFKA"
    cat > "$KAFKA/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>shown</groupId><artifactId>shown</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$1</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$1</version></dependency>
</dependencies></project>
POM
    mvn --quiet --batch-mode --file "$KAFKA/pom.xml" "-Dmaven.repo.local=$folder/repository" \
        org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies "-DoutputDirectory=$KAFKA" \
        > "$folder/downloaded" 2>&1 || { cat "$folder/downloaded" >&2; exit 1; }
    echo "Apache Kafka $1"
}

free_ports() { # COUNT: prints as many free ports of loopback, in one line
    python3 -c 'import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*[each.getsockname()[1] for each in held])' "$1"
}

tool() { # CLASS ARGUMENTS...: runs a tool of Kafka's; what it printed is in $printed, its exit code in $code
    code=0
    java -Xmx256m -XX:+UseSerialGC -cp "$KAFKA/*" "$@" > "$folder/printed" 2>&1 || code=$?
    printed=$(grep -v -e SLF4J -e log4j -e StatusLogger "$folder/printed" || :)
}

properties() { # ID ROLES PORT LINES...: PORT is that of its broker's listener, or of a controller's alone
    id=$1 roles=$2 port=$3
    shift 3
    {
        printf '%s\n' "node.id=$id" "process.roles=$roles" "log.dirs=$folder/$id" controller.listener.names=CONTROLLER \
            offsets.topic.replication.factor=1
        case $roles in
            controller) echo "listeners=CONTROLLER://127.0.0.1:$port" ;;
            broker) echo "listeners=PLAINTEXT://127.0.0.1:$port" ;;
        esac
        [ $# = 0 ] || printf '%s\n' "$@"
    } > "$folder/$id.properties"
}

format() { # ID OPTIONS...
    id=$1
    shift
    tool kafka.tools.StorageTool format -t AAAAAAAAQACAAAAAAAAAAA -c "$folder/$id.properties" "$@"
}

start() { # ID PORT: starts the node, and waits until it listens; its process id is in $node
    java -Xmx256m -XX:+UseSerialGC -cp "$KAFKA/*" kafka.Kafka "$folder/$1.properties" > "$folder/$1.log" 2>&1 &
    node=$!
    nodes="$nodes $node"
    within 90 python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1)' "$2" ||
        { tail -5 "$folder/$1.log"; seen "node $1 does not listen"; }
}

within() { # SECONDS COMMAND...: runs it until it succeeds; fails if it does not within the time
    end=$(($(date +%s) + $1))
    shift
    until "$@" > /dev/null 2>&1; do
        [ "$(date +%s)" -lt "$end" ] || return 1
        sleep 0.3
    done
}

seen() { # SENTENCE: ends the script, because something else was seen than it says
    echo "seen instead: $1" >&2
    exit 1
}
