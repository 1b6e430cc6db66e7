// Package vaultlock elects the active node of a HashiCorp Vault cluster over a mesh: it implements
// Vault's HA backend interface, [physical.HABackend], around any storage.
//
//	ha := vaultlock.New(mesh, storage)
//	core, err := vault.NewCore(&vault.CoreConfig{Physical: storage, HAPhysical: ha, ...})
//
// Vault keeps a value with its lock, by which the standby nodes find the active node. The value is
// written to the storage once the lock is held: as a separate entry for each lease, named by the
// lock and the lease's fencing token. Readers take the entry with the largest token. So a late
// write of an earlier holder is never mistaken for the present holder's value, though the storage
// knows nothing of tokens; and a holder that deletes its own entry can't harm other holders.
package vaultlock
