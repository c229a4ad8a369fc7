package brokerconfig

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// transactionFieldRows returns the rows for transaction settings with a field.
func transactionFieldRows() []*Property {
	return []*Property{
		{
			Name: "transaction.max.timeout.ms", Type: "int", Default: "900000",
			Field: "spec.transactions.maxTimeout",
			Doc:   "The longest timeout that a transactional producer may ask for.",
			field: duration(time.Millisecond, time.Second, 168*time.Hour,
				func(s *spec) **metav1.Duration { return &group(&s.Transactions).MaxTimeout }),
		},
		{
			Name: "transaction.state.log.num.partitions", Type: "int", Default: "50",
			Field: "spec.transactions.stateTopic.partitions",
			Doc: "The number of partitions of __transaction_state when it is created. It has no " +
				"effect on an existing topic.",
			field: count(1, 10000, func(s *spec) **int32 {
				return &group(&group(&s.Transactions).StateTopic).Partitions
			}),
		},
		{
			Name: "transaction.state.log.replication.factor", Type: "short", Default: "3",
			Field: "spec.transactions.stateTopic.replicas",
			Doc: "The number of replicas of __transaction_state when it is created, by default " +
				"at most the number of brokers. It has no effect on an existing topic.",
			field: count(1, 15, func(s *spec) **int32 {
				return &group(&group(&s.Transactions).StateTopic).Replicas
			}),
		},
		{
			Name: "transactional.id.expiration.ms", Type: "int", Default: "604800000",
			Field: "spec.transactions.idExpiration",
			Doc:   "How long an unused transactional id is kept.",
			field: duration(time.Millisecond, time.Minute, 596*time.Hour,
				func(s *spec) **metav1.Duration { return &group(&s.Transactions).IDExpiration }),
		},
	}
}
