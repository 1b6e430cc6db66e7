// Package vaultlock elects the active node of a HashiCorp Vault cluster over a mesh: it is Vault's HA backend interface,
// [physical.HABackend], around any storage.
//
//	ha := vaultlock.New(mesh, storage)
//	core, err := vault.NewCore(&vault.CoreConfig{Physical: storage, HAPhysical: ha, ...})
//
// Vault wants to keep a value with its lock, by which the standby nodes find the active one. The value is written to the storage,
// after the lock is held: as an entry of its own for each lease, named by the lock and the lease's fencing
// token. Readers take the entry with the largest token. So what an earlier holder writes late is never mistaken for the value of the present
// one, though the storage knows nothing of tokens; and deleting one's own entry can't harm anyone else's.
package vaultlock
