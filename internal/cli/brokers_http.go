package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/console/connect"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/remote"
)

const (
	// brokerTimeout limits one request to a broker's HTTP port.
	brokerTimeout = 30 * time.Second
	// tokenSeconds is the lifetime of a token, the shortest that the API server permits.
	tokenSeconds = 600
)

// account is the flag that names the ServiceAccount whose token is sent to the HTTP port of a
// secured LogCluster.
type account struct{ name string }

func (a *account) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.name, "service-account", "", "`NAME` ServiceAccount whose token "+
		"is sent to the brokers of a secured LogCluster")
}

// token returns a token of the ServiceAccount for a LogCluster's HTTP ports.
func (a *account) token(ctx context.Context, s *session, cluster string) (string, error) {
	serviceAccount := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: a.name,
		Namespace: s.namespace}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences:         []string{v1alpha1.ServiceAccountAudience(s.namespace, cluster)},
		ExpirationSeconds: new(int64(tokenSeconds)),
	}}
	if err := s.api.SubResource("token").Create(ctx, serviceAccount, request); err != nil {
		return "", fmt.Errorf("create a token of ServiceAccount %s: %w", a.name, err)
	}
	return request.Status.Token, nil
}

// tokens returns a function that returns a valid token. The function requests a new token before
// the last one expires.
func (a *account) tokens(s *session, cluster string) remote.Token {
	const renewAfter = tokenSeconds * time.Second / 2
	var mu sync.Mutex
	var token string
	var created time.Time
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if token != "" && time.Since(created) < renewAfter {
			return token, nil
		}
		fresh, err := a.token(ctx, s, cluster)
		if err == nil {
			token, created = fresh, time.Now()
		}
		return fresh, err
	}
}

// http returns a client for the HTTP ports of a LogCluster's brokers.
func (s *session) http(ctx context.Context, cluster *v1alpha1.LogCluster,
	account account) (*remote.Client, error) {
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		pod, _, _ := strings.Cut(address, ".")
		return s.pods.Dial(ctx, pod, v1alpha1.HTTPPort)
	}
	if !cluster.Spec.Secured() {
		return remote.NewClientThrough(dial, nil, "")
	}
	if account.name == "" {
		return nil, usage.New(fmt.Errorf("LogCluster %s is secured: name a ServiceAccount that "+
			"may get logclusters/report with --service-account", cluster.Name))
	}
	secret := &corev1.Secret{}
	if err := s.get(ctx, "Secret", v1alpha1.CACertSecretName(cluster.Name), secret); err != nil {
		return nil, err
	}
	tokens := account.tokens(s, cluster.Name)
	if _, err := tokens(ctx); err != nil {
		return nil, err
	}
	ca := secret.Data[v1alpha1.KeyPeerCA]
	return remote.NewClientWith(remote.Access{Dial: dial, Token: tokens,
		CA: func() ([]byte, error) { return ca, nil }}), nil
}

// silent is a broker that did not respond.
type silent struct {
	Broker int32  `json:"broker"`
	Error  string `json:"error"`
}

// ask sends a GET request to all brokers concurrently. It returns the responses by broker id, and
// the brokers that did not respond. It fails if a broker refuses the request.
func ask[T any](ctx context.Context, s *session, client *remote.Client,
	cluster *v1alpha1.LogCluster, path string) (map[int32]T, []silent, error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	answers, failed := map[int32]T{}, map[int32]error{}
	for _, id := range connect.BrokerIDs(cluster) {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, brokerTimeout)
			defer cancel()
			var answer T
			err := client.Get(ctx, render.HTTPAddress(cluster.Name, s.namespace, id), path, &answer)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[id] = err
				return
			}
			answers[id] = answer
		})
	}
	all.Wait()
	var missing []silent
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		missing = append(missing, silent{id, failed[id].Error()})
	}
	if len(answers) == 0 && len(missing) > 0 {
		return nil, nil, fmt.Errorf("no broker of LogCluster %s has answered: broker %d: %w",
			cluster.Name, missing[0].Broker, failed[missing[0].Broker])
	}
	return answers, missing, ctx.Err()
}

// replicas returns the reports on all replicas of a topic, or of all topics if topic is "". They
// are sorted by topic, partition and broker.
func (s *session) replicas(ctx context.Context, client *remote.Client,
	cluster *v1alpha1.LogCluster, topic string) ([]report.Partition, []silent, error) {
	path := "/api/v1/partitions"
	if topic != "" {
		path += "?" + url.Values{"topic": {topic}}.Encode()
	}
	answers, missing, err := ask[report.Partitions](ctx, s, client, cluster, path)
	if err != nil {
		return nil, nil, err
	}
	rows := []report.Partition{}
	for _, answer := range answers {
		rows = append(rows, answer.Partitions...)
	}
	slices.SortFunc(rows, func(a, b report.Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Broker, b.Broker))
	})
	return rows, missing, nil
}

// orEmpty returns the list, or an empty list for nil, so that the JSON is [] instead of null.
func orEmpty(missing []silent) []silent { return append([]silent{}, missing...) }

// printMissing prints a line for each broker that did not respond.
func (s *session) printMissing(missing []silent) {
	for _, m := range missing {
		_, _ = fmt.Fprintf(s.errOut, "broker %d did not answer: %s\n", m.Broker, printable(m.Error))
	}
}

// printUnread prints a line about the kinds that the user may not read.
func (s *session) printUnread() {
	if len(s.unread) > 0 {
		_, _ = fmt.Fprintf(s.errOut, "not shown, because you may not list them: %s\n",
			strings.Join(s.unread, ", "))
	}
}
