package main

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// remoteFileSystems are file systems of the network, by their numbers in statfs(2).
var remoteFileSystems = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "CIFS", unix.SMB2_SUPER_MAGIC: "SMB2",
	unix.CEPH_SUPER_MAGIC: "Ceph", unix.AFS_SUPER_MAGIC: "AFS", unix.CODA_SUPER_MAGIC: "Coda", unix.V9FS_MAGIC: "9P",
}

// fileSystemOf returns whether a directory is on a disk of this machine, and otherwise the kind of
// its file system.
func fileSystemOf(dir string) (at place, kind string) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return onMachine, ""
	}
	number := int64(uint32(s.Type)) // 32 bits with a sign on some machines
	if kind, remote := remoteFileSystems[number]; remote {
		return onNetwork, kind
	}
	if number == unix.FUSE_SUPER_MAGIC {
		return anywhere, "FUSE"
	}
	return onMachine, ""
}

// pathMTU returns the length of the longest packet on the way to an address, as far as the system
// knows.
func pathMTU(address string) (bytes int, known bool) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return 0, false
	}
	defer conn.Close()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, false
	}
	level, option := unix.IPPROTO_IP, unix.IP_MTU
	if a, is := conn.RemoteAddr().(*net.UDPAddr); is && a.IP.To4() == nil {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	_ = raw.Control(func(fd uintptr) {
		n, err := unix.GetsockoptInt(int(fd), level, option)
		bytes, known = n, err == nil
	})
	return bytes, known
}
