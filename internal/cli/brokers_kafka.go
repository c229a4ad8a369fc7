package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	corev1 "k8s.io/api/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/kafka"
	"heartwood.dev/heartwood/internal/credentials"
	"heartwood.dev/heartwood/internal/operator/render"
)

// kafkaFlags choose the listener to which a command connects, and the credentials.
type kafkaFlags struct {
	listener, user string
	account        account
}

func (k *kafkaFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.listener, "listener", "",
		"`NAME` of the listener (default: the first one that accepts the credentials)")
	cmd.Flags().StringVar(&k.user, "user", "",
		"`NAME` of a LogUser: connect with the credentials in its Secret")
	k.account.add(cmd)
}

// connect returns the options of connections to the brokers of a LogCluster.
func (k *kafkaFlags) connect(ctx context.Context, s *session,
	cluster *v1alpha1.LogCluster) (kafka.Options, error) {
	var secret corev1.Secret
	if k.user != "" {
		name := v1alpha1.UserSecretName(k.user)
		if err := s.get(ctx, "Secret", name, &secret); err != nil {
			return kafka.Options{}, err
		}
	}
	listener, err := k.choose(cluster, secret.Data)
	if err != nil {
		return kafka.Options{}, UsageError{err}
	}
	o := kafka.Options{Addresses: map[int32]string{},
		Dial: func(ctx context.Context, broker int32) (net.Conn, error) {
			return s.pods.Dial(ctx, v1alpha1.BrokerLeaseName(cluster.Name, broker), listener.Port)
		}}
	for _, id := range brokerIDs(cluster) {
		o.Addresses[id] = advertised(cluster, listener, id)
	}
	if listener.TLS != nil {
		if o.TLS, err = s.listenerTLS(ctx, cluster, secret.Data); err != nil {
			return kafka.Options{}, err
		}
	}
	switch how := accepts(listener, k, secret.Data); how {
	case v1alpha1.AuthenticationScramSha256, v1alpha1.AuthenticationScramSha512:
		auth := scram.Auth{User: string(secret.Data[credentials.KeyUserName]),
			Pass: string(secret.Data[credentials.KeyPassword])}
		o.SASL = auth.AsSha256Mechanism()
		if how == v1alpha1.AuthenticationScramSha512 {
			o.SASL = auth.AsSha512Mechanism()
		}
	case v1alpha1.AuthenticationOAuthBearer:
		token, err := k.account.token(ctx, s, cluster.Name)
		if err != nil {
			return kafka.Options{}, err
		}
		o.SASL = oauth.Auth{Token: token}.AsMechanism()
	}
	return o, nil
}

// choose returns the listener of the flags, or the first one that accepts the credentials.
func (k *kafkaFlags) choose(cluster *v1alpha1.LogCluster,
	secret map[string][]byte) (*v1alpha1.Listener, error) {
	listeners := cluster.Spec.Listeners.OrDefault()
	for i := range listeners {
		listener := &listeners[i]
		if k.listener != "" && listener.Name != k.listener {
			continue
		}
		if len(listener.Authentication) == 0 || accepts(listener, k, secret) != "" {
			return listener, nil
		}
		if k.listener != "" {
			return nil, fmt.Errorf("listener %s needs credentials that it accepts: give --user "+
				"or --service-account", k.listener)
		}
	}
	if k.listener != "" {
		return nil, fmt.Errorf("LogCluster %s has no listener %s", cluster.Name, k.listener)
	}
	return nil, fmt.Errorf("no listener of LogCluster %s accepts these credentials: give --user "+
		"with a LogUser, or --service-account", cluster.Name)
}

// accepts returns how a listener authenticates with the credentials of the flags; "" if it does not
// accept them, or needs none.
func accepts(listener *v1alpha1.Listener, k *kafkaFlags,
	secret map[string][]byte) v1alpha1.AuthenticationType {
	for _, way := range listener.Authentication {
		switch way.Type {
		case v1alpha1.AuthenticationScramSha256, v1alpha1.AuthenticationScramSha512:
			if len(secret[credentials.KeyPassword]) > 0 {
				return way.Type
			}
		case v1alpha1.AuthenticationTLS:
			if len(secret[credentials.KeyKey]) > 0 {
				return way.Type
			}
		case v1alpha1.AuthenticationOAuthBearer:
			if k.account.name != "" && way.OAuth != nil && way.OAuth.ServiceAccounts {
				return way.Type
			}
		}
	}
	return ""
}

// advertised returns the address of a broker as far as the spec says it: the host name of the pod
// for listeners whose advertised addresses depend on Services and nodes. The brokers' certificates
// contain these names.
func advertised(cluster *v1alpha1.LogCluster, listener *v1alpha1.Listener, broker int32) string {
	if address := render.Endpoint(cluster, listener,
		render.EndpointInput{Broker: broker}); address != "" {
		return address
	}
	host := fmt.Sprintf("%s.%s.%s.svc", v1alpha1.BrokerLeaseName(cluster.Name, broker),
		render.HeadlessName(cluster.Name), cluster.Namespace)
	return net.JoinHostPort(host, strconv.Itoa(int(listener.Port)))
}

// listenerTLS returns the TLS configuration of connections to a listener.
func (s *session) listenerTLS(ctx context.Context, cluster *v1alpha1.LogCluster,
	secret map[string][]byte) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	ca := secret[credentials.KeyCA]
	if len(ca) == 0 {
		certificates := &corev1.Secret{}
		if err := s.get(ctx, "Secret", v1alpha1.CACertSecretName(cluster.Name),
			certificates); err != nil {
			return nil, err
		}
		ca = certificates.Data[credentials.KeyCA]
	}
	if len(ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("read the CA of LogCluster %s: it contains no certificate",
				cluster.Name)
		}
	}
	if len(secret[credentials.KeyKey]) > 0 {
		pair, err := tls.X509KeyPair(secret[credentials.KeyCertificate],
			secret[credentials.KeyKey])
		if err != nil {
			return nil, fmt.Errorf("read the certificate of the LogUser: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// sortedPartitions returns the values of a flag for partitions without duplicates.
func sortedPartitions(partitions []int32) []int32 {
	return slices.Compact(slices.Sorted(slices.Values(partitions)))
}
