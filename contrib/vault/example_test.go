package vaultlock_test

import (
	"log"

	"github.com/hashicorp/vault/sdk/physical"

	"github.com/lockmesh/lockmesh"
	vaultlock "github.com/lockmesh/lockmesh/contrib/vault"
)

// Vault's use of an HA backend, in short.
func Example() {
	var mesh *lockmesh.Mesh      // as Join returned it
	var storage physical.Backend // shared by all nodes of the cluster
	ha := vaultlock.New(mesh, storage)
	lock, err := ha.LockWith("core/lock", "https://vault-1.example.com:8200")
	if err != nil {
		log.Fatal(err)
	}
	lost, err := lock.Lock(nil)
	if err != nil {
		log.Fatal(err)
	}
	<-lost // the active node serves until then
	log.Print(lock.Unlock())
}
