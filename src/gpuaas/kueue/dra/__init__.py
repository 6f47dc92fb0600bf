"""Dynamic resource allocation: DeviceClasses, ResourceSlices and claims as quota."""
