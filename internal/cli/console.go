package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/console"
	"heartwood.dev/heartwood/internal/console/connect"
	consolekafka "heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/internal/console/kube"
	"heartwood.dev/heartwood/internal/kafkaclient"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/remote"
)

// consoleHeaderTimeout limits the time in which a browser must send a request's header.
const consoleHeaderTimeout = 10 * time.Second

func consoleCommand(f *flags) *cobra.Command {
	var connection kafkaFlags
	port := uint16(0)
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve the web console of a LogCluster on this machine",
		Long: `Serve the web console of a LogCluster on a loopback address of this machine until Ctrl-C, and print
its address. The console reaches the brokers as the other commands do, with your rights; every user
of this machine can open it, and make the changes that it offers. Requests to clean set the
annotation heartwood.dev/clean-now of the Topic.

On a secured LogCluster, --service-account is needed. If no listener accepts its tokens, give --user
as well: otherwise messages, groups and settings are not shown.`,
		Example: `  kubectl heartwood console
  kubectl heartwood console --service-account console --user console`,
		Args: usage.NoArgs,
	}
	connection.add(cmd)
	cmd.Flags().Uint16Var(&port, "port", 9645,
		"`PORT` serve the console here on 127.0.0.1; 0: any free port")
	cmd.RunE = f.run(func(ctx context.Context, s *session, _ []string) error {
		cluster, err := s.logCluster(ctx)
		if err != nil {
			return err
		}
		options, err := s.consoleOptions(ctx, cluster, &connection)
		if err != nil {
			return err
		}
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(int(port)))
		if err != nil {
			return fmt.Errorf("listen for http: %w", err)
		}
		pages := console.New(options)
		defer pages.Close()
		server := &http.Server{Handler: pages, ReadHeaderTimeout: consoleHeaderTimeout}
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		if s.json() {
			err = printLine(s.out, map[string]string{"console": "http://" +
				listener.Addr().String() + "/"})
		} else {
			_, err = fmt.Fprintf(s.out, "ready console=http://%s/\n", listener.Addr())
		}
		if served := server.Serve(listener); !errors.Is(served, http.ErrServerClosed) {
			return fmt.Errorf("serve http: %w", served)
		}
		return err
	})
	return cmd
}

// consoleOptions returns the options for a LogCluster's console.
func (s *session) consoleOptions(ctx context.Context, cluster *v1alpha1.LogCluster,
	connection *kafkaFlags) (console.Options, error) {
	client, err := s.http(ctx, cluster, connection.account)
	if err != nil {
		return console.Options{}, err
	}
	reach, unreachable := connection.connect(ctx, s, cluster)
	if unreachable != nil && (connection.user != "" || connection.listener != "") {
		return console.Options{}, unreachable
	}
	var addresses []string
	for _, id := range connect.BrokerIDs(cluster) {
		addresses = append(addresses, render.HTTPAddress(cluster.Name, s.namespace, id))
	}
	may, err := kube.Rights(s.config, console.ClusterName{Namespace: s.namespace,
		Name: cluster.Name})
	if err != nil {
		return console.Options{}, err
	}
	return console.Options{
		Cluster: cluster.Name, Loopback: true, May: may, Fleet: remote.NewFleet(client, addresses, false),
		Kafka: func() (*consolekafka.Client, error) {
			if unreachable != nil {
				return nil, unreachable
			}
			bootstrap, options := kafkaclient.Reach(reach)
			return consolekafka.New(bootstrap, options...)
		},
		Clean: func(ctx context.Context, topic string) error {
			return s.cleanNow(ctx, cluster.Name, topic)
		},
	}, nil
}

// cleanNow requests passes over the topic with the given Kafka name.
func (s *session) cleanNow(ctx context.Context, cluster, name string) error {
	topics, err := s.topicsOf(ctx, cluster)
	if err != nil {
		return err
	}
	var found *v1alpha1.Topic
	for i := range topics {
		if topic := &topics[i]; topic.KafkaName() == name && (found == nil || usedBefore(topic, found)) {
			found = topic
		}
	}
	if found == nil {
		return fmt.Errorf("namespace %s has no Topic for %s", s.namespace, name)
	}
	return annotate(ctx, s, found, v1alpha1.AnnotationCleanNow, "console-"+stamp())
}
