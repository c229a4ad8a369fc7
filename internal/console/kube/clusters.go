package kube

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/console"
	"heartwood.dev/heartwood/internal/console/connect"
	"heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/internal/credentials"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/remote"
	"heartwood.dev/heartwood/internal/restmapper"
)

// ClustersOptions configures Clusters.
type ClustersOptions struct {
	// Namespaces are the namespaces whose LogClusters are listed; empty: all namespaces.
	Namespaces []string
	// Account is the console's ServiceAccount. It must be allowed to create tokens for itself, because
	// secured LogClusters require them.
	Account client.ObjectKey
	// LogUser is the name of a LogUser, or "". The console uses its Secret for listeners that do not
	// accept ServiceAccount tokens.
	LogUser string
}

// Clusters finds LogClusters and connects to them with the rights of the console's own
// ServiceAccount. It is safe for concurrent use.
type Clusters struct {
	o   ClustersOptions
	api client.Client

	mu     sync.Mutex
	listed map[console.ClusterName]*v1alpha1.LogCluster // immutable objects from the last List
}

// NewClusters returns Clusters for the API server in config. It sends no request.
func NewClusters(config *rest.Config, o ClustersOptions) (*Clusters, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme,
		v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	limited := rest.CopyConfig(config)
	limited.Timeout = requestTimeout
	api, err := client.New(limited, client.Options{Scheme: scheme, Mapper: restmapper.New(
		restmapper.Namespaced(v1alpha1.GroupVersion, "LogCluster"),
		restmapper.Namespaced(corev1.SchemeGroupVersion, "Secret", "ServiceAccount"))})
	if err != nil {
		return nil, fmt.Errorf("create the client of the API server: %w", err)
	}
	return &Clusters{o: o, api: api}, nil
}

// List returns the LogClusters in the namespaces. It is used as console.SiteOptions.List.
func (c *Clusters) List(ctx context.Context) ([]console.Cluster, error) {
	namespaces := c.o.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	found := map[console.ClusterName]*v1alpha1.LogCluster{}
	all := []console.Cluster{}
	for _, namespace := range namespaces {
		list := &v1alpha1.LogClusterList{}
		if err := c.api.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list the LogClusters: %w", err)
		}
		for i := range list.Items {
			logCluster := &list.Items[i]
			name := console.ClusterName{Namespace: logCluster.Namespace, Name: logCluster.Name}
			found[name] = logCluster
			ids := connect.BrokerIDs(logCluster)
			all = append(all, console.Cluster{ClusterName: name, Brokers: len(ids),
				Secured: logCluster.Spec.Secured(),
				Version: fmt.Sprint(logCluster.UID, " ", logCluster.Generation, " ", ids)})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = found
	return all, nil
}

// Connect connects to a LogCluster that List has returned. It is used as
// console.SiteOptions.Connect.
func (c *Clusters) Connect(to console.Cluster) (console.Connection, error) {
	c.mu.Lock()
	cluster := c.listed[to.ClusterName]
	c.mu.Unlock()
	if cluster == nil {
		return console.Connection{}, fmt.Errorf("connect to LogCluster %s: it is not listed",
			to.ClusterName)
	}
	l := c.link(cluster)
	var addresses []string
	for _, id := range connect.BrokerIDs(cluster) {
		addresses = append(addresses, render.HTTPAddress(cluster.Name, cluster.Namespace, id))
	}
	if len(addresses) == 0 {
		return console.Connection{}, fmt.Errorf("LogCluster %s has no brokers", to.ClusterName)
	}
	access := remote.Access{}
	if cluster.Spec.Secured() {
		access.CA, access.Token = l.peerCA, l.tokens
	}
	return console.Connection{Kafka: l.kafka,
		Fleet: remote.NewFleet(remote.NewClientWith(access), addresses, false)}, nil
}

// secret returns a function that reads the given Secret.
func (c *Clusters) secret(namespace, name string) func(context.Context) (map[string][]byte,
	time.Duration, error) {
	return func(ctx context.Context) (map[string][]byte, time.Duration, error) {
		found := &corev1.Secret{}
		err := c.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found)
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("the console may not read Secret %s of namespace %s: list its LogCluster "+
				"in console.clusters of the chart: %w", name, namespace, err)
		} else if err != nil {
			err = fmt.Errorf("read Secret %s of namespace %s: %w", name, namespace, err)
		}
		return found.Data, secretTTL, err
	}
}

// link is the connection to one LogCluster.
type link struct {
	*Clusters
	cluster *v1alpha1.LogCluster
	secrets cached[map[string][]byte] // Secret with the CAs
	user    cached[map[string][]byte] // Secret of the LogUser
	token   cached[string]
}

func (c *Clusters) link(cluster *v1alpha1.LogCluster) *link {
	l := &link{Clusters: c, cluster: cluster}
	l.secrets.read = c.secret(cluster.Namespace, v1alpha1.CACertSecretName(cluster.Name))
	l.user.read = c.secret(cluster.Namespace, v1alpha1.UserSecretName(c.o.LogUser))
	l.token.read = l.createToken
	return l
}

// createToken creates a token of the console's ServiceAccount that is valid only for the
// LogCluster's brokers.
func (l *link) createToken(ctx context.Context) (string, time.Duration, error) {
	serviceAccount := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: l.o.Account.Name,
		Namespace: l.o.Account.Namespace}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{v1alpha1.ServiceAccountAudience(l.cluster.Namespace,
			l.cluster.Name)},
		ExpirationSeconds: new(int64(tokenLifetime / time.Second))}}
	if err := l.api.SubResource("token").Create(ctx, serviceAccount, request); err != nil {
		return "", 0, fmt.Errorf("create a token of ServiceAccount %s: %w", l.o.Account, err)
	}
	return request.Status.Token, tokenLifetime / 2, nil
}

func (l *link) tokens(ctx context.Context) (string, error) { return l.token.get(ctx) }

// peerCA returns the CA that verifies the brokers' HTTP ports.
func (l *link) peerCA() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	secret, err := l.secrets.get(ctx)
	return secret[v1alpha1.KeyPeerCA], err
}

// credentials returns the console's credentials. It reads the LogUser's Secret only if a listener
// authenticates its clients and no listener accepts ServiceAccount tokens.
func (l *link) credentials(ctx context.Context) (connect.Credentials, error) {
	own := connect.Credentials{Token: l.tokens}
	authenticates := func(listener v1alpha1.Listener) bool { return len(listener.Authentication) > 0 }
	if l.o.LogUser == "" || own.First(l.listeners()) != nil ||
		!slices.ContainsFunc(l.listeners(), authenticates) {
		return own, nil
	}
	secret, err := l.user.get(ctx)
	own.User = secret
	return own, err
}

// listeners returns the listeners; those inside the Kubernetes cluster come first.
func (l *link) listeners() []v1alpha1.Listener {
	all := slices.Clone(l.cluster.Spec.Listeners.OrDefault())
	slices.SortStableFunc(all, func(a, b v1alpha1.Listener) int {
		outside := func(listener v1alpha1.Listener) int {
			if listener.Type == "" || listener.Type == v1alpha1.ListenerInternal {
				return 0
			}
			return 1
		}
		return outside(a) - outside(b)
	})
	return all
}

// kafka connects to the brokers over the Kafka protocol.
func (l *link) kafka() (*kafka.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	own, err := l.credentials(ctx)
	if err != nil {
		return nil, err
	}
	listener, err := own.Choose(l.listeners(), "")
	if err != nil {
		return nil, fmt.Errorf("%w: give the LogCluster a listener with authentication OAuthBearer "+
			"and oauth.serviceAccounts, or the console a LogUser (console.logUser of the chart)", err)
	}
	var bootstrap []string
	for _, id := range connect.BrokerIDs(l.cluster) {
		host, _, _ := strings.Cut(render.HTTPAddress(l.cluster.Name, l.cluster.Namespace, id), ":")
		bootstrap = append(bootstrap, net.JoinHostPort(host, strconv.Itoa(int(listener.Port))))
	}
	how := own.Accepted(listener)
	var config func(context.Context) (*tls.Config, error)
	if listener.TLS != nil {
		config = l.listenerTLS
	}
	return kafka.New(bootstrap, connect.Options(config, how, l.credentials)...)
}

// listenerTLS returns the TLS configuration for one connection to a listener.
func (l *link) listenerTLS(ctx context.Context) (*tls.Config, error) {
	own, err := l.credentials(ctx)
	if err != nil {
		return nil, err
	}
	if len(own.User[credentials.KeyCA]) > 0 {
		return own.TLS(nil)
	}
	secret, err := l.secrets.get(ctx)
	if err != nil {
		return nil, err
	}
	return own.TLS(secret[credentials.KeyCA])
}
