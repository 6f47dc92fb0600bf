"""What people call the kinds of jobs."""

# What people call jobs: the word, and the kind a workload's owner has.
JOB_KINDS = {
    "job": "Job",
    "pod": "Pod",
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "raycluster": "RayCluster",
    "rayjob": "RayJob",
    "rayservice": "RayService",
    "jobset": "JobSet",
    "leaderworkerset": "LeaderWorkerSet",
    "appwrapper": "AppWrapper",
    "pytorchjob": "PyTorchJob",
    "tfjob": "TFJob",
    "mpijob": "MPIJob",
    "jaxjob": "JAXJob",
    "paddlejob": "PaddleJob",
    "xgboostjob": "XGBoostJob",
    "trainjob": "TrainJob",
    "notebook": "Notebook",
    "workload": "Workload",
}


def kind_of(word: str) -> str:
    """`job`, `Jobs` and `Job` are Job; a word that is not known is taken for a kind's own name."""
    return JOB_KINDS.get(word.lower().removesuffix("s"), word) if word else ""
