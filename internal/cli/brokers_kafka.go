package cli

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/health"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/console/connect"
	"heartwood.dev/heartwood/internal/credentials"
	"heartwood.dev/heartwood/internal/kafkaclient"
	"heartwood.dev/heartwood/internal/operator/render"
)

// kafkaFlags are the flags that select the listener to connect to, and the credentials.
type kafkaFlags struct {
	listener, user string
	account        account
}

func (k *kafkaFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.listener, "listener", "",
		"`NAME` connect to this listener (default: the first one that accepts the credentials)")
	cmd.Flags().StringVar(&k.user, "user", "",
		"`NAME` connect as this LogUser, with the credentials in its Secret")
	k.account.add(cmd)
}

// connect returns the options for Kafka connections to a LogCluster's brokers.
func (k *kafkaFlags) connect(ctx context.Context, s *session,
	cluster *v1alpha1.LogCluster) (kafkaclient.Options, error) {
	var secret corev1.Secret
	if k.user != "" {
		name := v1alpha1.UserSecretName(k.user)
		if err := s.get(ctx, "Secret", name, &secret); err != nil {
			return kafkaclient.Options{}, err
		}
	}
	own := connect.Credentials{User: secret.Data}
	if k.account.name != "" {
		own.Token = k.account.tokens(s, cluster.Name)
	}
	listener, err := own.Choose(cluster.Spec.Listeners.OrDefault(), k.listener)
	if err != nil {
		return kafkaclient.Options{}, usage.New(fmt.Errorf("LogCluster %s: %w: give --user with a "+
			"LogUser, or --service-account", cluster.Name, err))
	}
	o := kafkaclient.Options{Addresses: map[int32]string{},
		Dial: func(ctx context.Context, broker int32) (net.Conn, error) {
			return s.pods.Dial(ctx, v1alpha1.BrokerLeaseName(cluster.Name, broker), listener.Port)
		}}
	pods, err := s.podsOf(ctx, cluster.Name)
	if err != nil {
		return kafkaclient.Options{}, err
	}
	for _, id := range connect.BrokerIDs(cluster) {
		o.Addresses[id] = advertised(cluster, listener, id)
		if health.PodReady(health.PodOf(pods, cluster.Name, id)) {
			o.Seeds = append(o.Seeds, id)
		}
	}
	if listener.TLS != nil {
		ca, err := s.listenerCA(ctx, cluster, secret.Data)
		if err != nil {
			return kafkaclient.Options{}, err
		}
		if o.TLS, err = own.TLS(ca); err != nil {
			return kafkaclient.Options{}, err
		}
	}
	o.SASL = own.SASL(own.Accepted(listener))
	return o, nil
}

// advertised returns a broker's advertised address if the spec determines it. If the address
// depends on a Service or a node, advertised returns the pod's host name, which the brokers'
// certificates contain.
func advertised(cluster *v1alpha1.LogCluster, listener *v1alpha1.Listener, broker int32) string {
	if address := render.Endpoint(cluster, listener,
		render.EndpointInput{Broker: broker}); address != "" {
		return address
	}
	host := fmt.Sprintf("%s.%s.%s.svc", v1alpha1.BrokerLeaseName(cluster.Name, broker),
		render.HeadlessName(cluster.Name), cluster.Namespace)
	return net.JoinHostPort(host, strconv.Itoa(int(listener.Port)))
}

// listenerCA returns the CA of the listeners (PEM), unless the user's Secret contains it.
func (s *session) listenerCA(ctx context.Context, cluster *v1alpha1.LogCluster,
	secret map[string][]byte) ([]byte, error) {
	if len(secret[credentials.KeyCA]) > 0 {
		return nil, nil
	}
	certificates := &corev1.Secret{}
	err := s.get(ctx, "Secret", v1alpha1.CACertSecretName(cluster.Name), certificates)
	return certificates.Data[credentials.KeyCA], err
}

// sortedPartitions returns the flag's partitions, sorted and without duplicates.
func sortedPartitions(partitions []int32) []int32 {
	return slices.Compact(slices.Sorted(slices.Values(partitions)))
}
